#include "sim/deepspeed/trainer_arguments.h"

#include <array>
#include <utility>

#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/lax_values.h"

namespace zenflow::sim {
namespace {

using Argument = std::pair<const char*, const char*>;

constexpr std::array<Argument, 4> kBeforeBetas = {{
    {"train_micro_batch_size_per_gpu", "--per_device_train_batch_size"},
    {"gradient_accumulation_steps", "--gradient_accumulation_steps"},
    {"gradient_clipping", "--max_grad_norm"},
    {"optimizer.params.lr", "--learning_rate"},
}};
constexpr std::array<const char*, 2> kBetas = {"--adam_beta1", "--adam_beta2"};
constexpr std::array<Argument, 4> kAfterBetas = {{
    {"optimizer.params.eps", "--adam_epsilon"},
    {"optimizer.params.weight_decay", "--weight_decay"},
    {"scheduler.params.warmup_max_lr", "--learning_rate"},
    {"scheduler.params.warmup_num_steps", "--warmup_steps"},
}};
constexpr std::array<Argument, 2> kSwitches = {{
    {"fp16.enabled", "--fp16"},
    {"bf16.enabled", "--bf16"},
}};

class Arguments {
 public:
  explicit Arguments(const Node& root) : root_(root) {}

  std::vector<TrainerArgument> all() {
    for (const Argument& one : kBeforeBetas) number(one);
    betas();
    for (const Argument& one : kAfterBetas) number(one);
    for (const auto& [path, argument] : kSwitches) {
      const Node* node = find_path(root_, path);
      const bool on = node != nullptr && lax_boolean(*node).value_or(false);
      if (on) found_.push_back({path, argument, ""});
    }
    return std::move(found_);
  }

 private:
  void number(const Argument& one) {
    const Node* node = find_path(root_, one.first);
    if (node != nullptr && is_number(*node))
      found_.push_back({one.first, one.second, node->scalar});
  }
  void betas() {
    const char* path = "optimizer.params.betas";
    const Node* list = find_path(root_, path);
    if (list == nullptr || list->items.size() != kBetas.size()) return;
    for (std::size_t i = 0; i < kBetas.size(); ++i) {
      if (is_number(list->items[i])) found_.push_back({path, kBetas[i], list->items[i].scalar});
    }
  }

  const Node& root_;
  std::vector<TrainerArgument> found_;
};

}  // namespace

std::vector<TrainerArgument> trainer_arguments(const Node& root) {
  return Arguments(root).all();
}

}  // namespace zenflow::sim
