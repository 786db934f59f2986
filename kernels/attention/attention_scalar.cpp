#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/bf16/stored.h"

namespace zenflow::kernels {
namespace {

/// Where token `token` of the batch has its query of a head, or its key or value of a key head.
struct Places {
  const AttentionShape& shape;

  [[nodiscard]] std::size_t query(std::size_t token, std::size_t head) const {
    return token * shape.row() + head * shape.head_dim;
  }
  [[nodiscard]] std::size_t key(std::size_t token, std::size_t head) const {
    const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
    return token * shape.row() + (shape.heads + kv_head) * shape.head_dim;
  }
  [[nodiscard]] std::size_t value(std::size_t token, std::size_t head) const {
    return key(token, head) + shape.kv_heads * shape.head_dim;
  }
  [[nodiscard]] std::size_t out(std::size_t token, std::size_t head) const {
    return token * shape.out_row() + head * shape.head_dim;
  }
};

template <class A, class B>
double dot(const A* a, const B* b, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += static_cast<double>(to_float(a[i])) * static_cast<double>(to_float(b[i]));
  }
  return sum;
}

template <class Element>
void add_scaled(std::vector<double>& sum, std::size_t at, double factor, const Element* row,
                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[at + i] += factor * static_cast<double>(to_float(row[i]));
}

/// Of the keys from `first` on.
template <class Element>
std::vector<double> scores(const AttentionShape& shape, const Element* qkv, std::size_t first,
                           std::size_t token, std::size_t head) {
  const Places at{shape};
  const auto cap = static_cast<double>(shape.cap);
  std::vector<double> s;
  for (std::size_t u = first; u <= token; ++u) {
    const double score = static_cast<double>(shape.scale) *
                         dot(qkv + at.query(token, head), qkv + at.key(u, head), shape.head_dim);
    s.push_back(cap > 0.0 ? cap * std::tanh(score / cap) : score);
  }
  return s;
}

/// d score / d (what the cap takes).
double slope(const AttentionShape& shape, double score) {
  const auto cap = static_cast<double>(shape.cap);
  return cap > 0.0 ? 1.0 - score / cap * (score / cap) : 1.0;
}

template <class Element>
Element element(double value) {
  return as_element<Element>(static_cast<float>(value));
}

/// Calls work(first token that it sees, token, head) for all of them.
template <class Work>
void for_each_row(const AttentionShape& shape, const Work& work) {
  for (std::size_t token = 0; token < shape.tokens(); ++token) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const std::size_t position = token % shape.length;
      work(token - position + shape.first_key(position), token, head);
    }
  }
}

}  // namespace

template <class Element>
void attention_forward_scalar(const AttentionShape& shape, const AttentionForward<Element>& v) {
  const Places at{shape};
  for_each_row(shape, [&](std::size_t first, std::size_t token, std::size_t head) {
    const std::vector<double> s = scores(shape, v.qkv, first, token, head);
    const double largest = *std::max_element(s.begin(), s.end());
    double sum = 0.0;
    for (const double score : s) sum += std::exp(score - largest);
    const double lse = largest + std::log(sum);
    v.lse[token * shape.heads + head] = static_cast<float>(lse);
    std::vector<double> out(shape.head_dim, 0.0);
    for (std::size_t u = 0; u < s.size(); ++u) {
      add_scaled(out, 0, std::exp(s[u] - lse), v.qkv + at.value(first + u, head), shape.head_dim);
    }
    for (std::size_t c = 0; c < shape.head_dim; ++c) {
      v.out[at.out(token, head) + c] = element<Element>(out[c]);
    }
  });
}

template <class Element>
void attention_backward_scalar(const AttentionShape& shape, const AttentionBackward<Element>& v) {
  const Places at{shape};
  const std::size_t n = shape.head_dim;
  std::vector<double> sums(shape.tokens() * shape.row(), 0.0);
  for_each_row(shape, [&](std::size_t first, std::size_t token, std::size_t head) {
    const std::vector<double> s = scores(shape, v.qkv, first, token, head);
    const std::size_t statistic = token * shape.heads + head;
    const Element* const d_out = v.d_out + at.out(token, head);
    const double delta = dot(v.out + at.out(token, head), d_out, n);
    v.delta[statistic] = static_cast<float>(delta);
    for (std::size_t u = 0; u < s.size(); ++u) {
      const double p = std::exp(s[u] - static_cast<double>(v.lse[statistic]));
      const double dp = dot(d_out, v.qkv + at.value(first + u, head), n);
      const double ds = p * (dp - delta) * static_cast<double>(shape.scale) * slope(shape, s[u]);
      add_scaled(sums, at.query(token, head), ds, v.qkv + at.key(first + u, head), n);
      add_scaled(sums, at.key(first + u, head), ds, v.qkv + at.query(token, head), n);
      add_scaled(sums, at.value(first + u, head), p, d_out, n);
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) v.d_qkv[i] = element<Element>(sums[i]);
}

template void attention_forward_scalar(const AttentionShape&, const AttentionForward<float>&);
template void attention_forward_scalar(const AttentionShape&, const AttentionForward<Bf16>&);
template void attention_backward_scalar(const AttentionShape&, const AttentionBackward<float>&);
template void attention_backward_scalar(const AttentionShape&, const AttentionBackward<Bf16>&);

}  // namespace zenflow::kernels
