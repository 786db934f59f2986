#include "runtime/probe/statistics.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

double percentile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// y = intercept + slope x, by weighted least squares.
struct Line {
  double intercept;
  double slope;
};
struct Point {
  double x;
  double y;
  double weight;
};
Line fit_line(std::span<const Point> points) {
  double w = 0;
  double wx = 0;
  double wy = 0;
  for (const Point& p : points) {
    w += p.weight;
    wx += p.weight * p.x;
    wy += p.weight * p.y;
  }
  const double mean_x = wx / w;
  const double mean_y = wy / w;
  double xx = 0;
  double xy = 0;
  for (const Point& p : points) {
    xx += p.weight * (p.x - mean_x) * (p.x - mean_x);
    xy += p.weight * (p.x - mean_x) * (p.y - mean_y);
  }
  const double slope = xx > 0 ? xy / xx : 0;
  return {mean_y - slope * mean_x, slope};
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  constexpr std::size_t kFew = 10;
  if (samples.size() < kFew) {
    return {percentile(samples, 0.5), samples.front(), samples.back(), samples.size()};
  }
  constexpr double kLow = 0.1;
  return {percentile(samples, 0.5), percentile(samples, kLow), percentile(samples, 1 - kLow),
          samples.size()};
}

const Figure& figure(std::span<const Figure> figures, const std::string& id) {
  const auto found =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.id == id; });
  if (found == figures.end()) throw Error(ErrorKind::kRuntime, "not measured: " + id);
  return *found;
}

ProductFit fit_products(std::span<const ProductTime> points) {
  std::vector<Point> line_points;
  double rates = 0;
  double squared_rates = 0;
  for (const ProductTime& p : points) {
    line_points.push_back({p.flops, p.seconds, 1 / (p.seconds * p.seconds)});
    const double rate = p.flops / p.seconds;
    rates += rate;
    squared_rates += rate * rate;
  }
  const Line line = fit_line(line_points);
  if (line.slope > 0 && line.intercept > 0) return {1 / line.slope, line.intercept / line.slope};
  // A loss cannot be negative. Without one the best line goes through the origin.
  return {squared_rates / rates, 0};
}

double fit_half_threads(std::span<const ThreadRate> points) {
  std::vector<Point> line_points;
  double most = 0;
  for (const ThreadRate& p : points) {
    const double y = p.threads / p.rate;
    line_points.push_back({p.threads, y, 1 / (y * y)});
    most = std::max(most, p.threads);
  }
  const Line line = fit_line(line_points);
  if (line.intercept <= 0) return kLeastHalf;
  if (line.slope <= 0) return kMostHalf * most;
  return std::clamp(line.intercept / line.slope, kLeastHalf, kMostHalf * most);
}

}  // namespace zenflow::runtime
