#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/page/page.h"
#include "sim/report/explain.h"
#include "sim/report/result_json.h"
#include "tools/commands/commands.h"
#include "tools/explore/http_server.h"
#include "tools/report_page.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

/// Spans of the run that an answer shows: what travels and is drawn in a few milliseconds.
constexpr std::int64_t kAnswerSpans = 4'000;

/// What a reader can change. The page makes a slider of each.
struct Slider {
  std::string name;   ///< in queries
  std::string label;  ///< for people
  double low;
  double high;
  double step;
  double value;  ///< as the scenario has it

  [[nodiscard]] bool takes(double number) const {
    const bool is_whole = number == std::floor(number);
    return number >= low && number <= high && (is_whole || step < 1);
  }
};

using Values = std::map<std::string, double>;

/// "a=1&b=2.5", each a slider's. Throws Error(kInput) for anything else.
Values parse_query(const std::string& query, const std::vector<Slider>& sliders) {
  Values values;
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t end = std::min(query.find('&', at), query.size());
    const std::string part = query.substr(at, end - at);
    at = end + 1;
    const std::size_t mark = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, mark);
    const auto slider = std::find_if(sliders.begin(), sliders.end(),
                                     [&](const Slider& one) { return one.name == name; });
    double value = 0;
    const char* begin = part.data() + std::min(mark + 1, part.size());
    const auto [stop, failure] = std::from_chars(begin, part.data() + part.size(), value);
    const bool is_number = failure == std::errc() && stop == part.data() + part.size();
    if (slider == sliders.end() || !is_number || !slider->takes(value)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("\"{}\": expected a slider's name and a number in its range",
                              printable_name(part)));
    }
    values[name] = value;
  }
  return values;
}

/// What a reader is shown.
struct Answered {
  std::string document;  ///< as `run --json` prints it
  sim::PageRun run;
};

/// A scenario, and what becomes of it with other values.
class Explorer {
 public:
  Explorer(const CommonOptions& common, const std::filesystem::path& path)
      : common_(quiet(common)),
        options_(load_options(common_, path)),
        tree_(load_tree(common_, path, options_)) {
    const LoadedJob loaded = job_with({});
    const sim::Scenario& scenario = loaded.job.scenario;
    if (const auto& zenflow = loaded.job.deepspeed.zenflow) {
      const double ratio = zenflow->topk_ratio;
      sliders_.push_back(
          {"topk_ratio", "topk_ratio", std::min(0.01, ratio), std::max(0.9, ratio), 0.01, ratio});
      const auto interval = static_cast<double>(zenflow->update_interval.value_or(4));
      const char* label =
          zenflow->update_interval ? "update_interval" : "update_interval, now auto";
      sliders_.push_back({"update_interval", label, 1, std::max(32.0, interval), 1, interval});
    }
    const auto batch = static_cast<double>(scenario.training.micro_batch_size_per_gpu);
    sliders_.push_back({"batch", "micro-batch a GPU", 1, std::max(32.0, 2 * batch), 1, batch});
    sliders_.push_back({"host_link", "GPU-host link, times as fast", 0.25, 4, 0.05, 1});
    if (scenario.ranks() > 1) {
      sliders_.push_back({"gpu_link", "GPU-GPU link, times as fast", 0.25, 4, 0.05, 1});
    }
    const auto cores = static_cast<double>(scenario.hardware.host.cores);
    sliders_.push_back({"cores", "cores of the node", 1, 2 * cores, 1, cores});
    for (const sim::Schedule* schedule : loaded.schedules) {
      schedules_.emplace_back(schedule->name());
    }
  }

  /// The page that asks for answers.
  [[nodiscard]] std::string page() const {
    auto list = nlohmann::ordered_json::array();
    for (const Slider& one : sliders_) {
      list.push_back({{"name", one.name},
                      {"label", one.label},
                      {"low", one.low},
                      {"high", one.high},
                      {"step", one.step},
                      {"value", one.value}});
    }
    const LoadedJob loaded = job_with({});
    Answered first = answered(loaded, 0);
    sim::PageContent content{"explore", loaded.job.scenario.name, first.document};
    content.sliders = list.dump();
    content.runs.push_back(std::move(first.run));
    content.labels = schedules_;
    return sim::page_html(content);
  }

  /// {"document": as `run --json` prints it, "run": that of schedule `shown`}. Or {"error": why
  /// there is none}: some values do not go together.
  [[nodiscard]] std::string answer(const std::string& query) const {
    Values values = parse_query(query, with_choice());
    const auto shown = static_cast<std::size_t>(values["run"]);
    values.erase("run");
    try {
      const Answered one = answered(job_with(values), shown);
      return fmt::format("{{\"document\":{},\"run\":{}}}\n", one.document,
                         sim::run_json(one.run, sim::kPageSpans));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      return fmt::format("{{\"error\":{}}}\n", json_quoted(error.what()));
    }
  }

 private:
  /// What is to be said of the scenario is said once.
  static CommonOptions quiet(CommonOptions common) {
    common.quiet = true;
    return common;
  }

  /// The sliders, and which schedule's run is shown.
  [[nodiscard]] std::vector<Slider> with_choice() const {
    std::vector<Slider> all = sliders_;
    all.push_back({"run", "", 0, static_cast<double>(schedules_.size() - 1), 1, 0});
    return all;
  }

  [[nodiscard]] LoadedJob job_with(const Values& values) const {
    std::vector<std::string> set;
    for (const auto& [name, value] : values) {
      if (name == "topk_ratio" || name == "update_interval") {
        set.push_back(fmt::format("{}={}", name, value));
      } else if (name == "batch") {
        add_batch(value, set);
      }
    }
    std::vector<sim::Override> overrides = options_.overrides;
    const std::vector<sim::Override> more = sim::parse_overrides(set);
    overrides.insert(overrides.end(), more.begin(), more.end());
    sim::Scenario scenario = sim::read_scenario(tree_, overrides);
    change_hardware(values, scenario);
    return finish_job(common_, std::move(scenario));
  }

  /// The scenario's, and the DeepSpeed file's where it says one.
  void add_batch(double value, std::vector<std::string>& set) const {
    set.push_back(fmt::format("training.micro_batch_size_per_gpu={}", value));
    const sim::Scenario own = sim::read_scenario(tree_, options_.overrides);
    if (own.deepspeed.find("train_micro_batch_size_per_gpu") != nullptr) {
      set.push_back(fmt::format("deepspeed.train_micro_batch_size_per_gpu={}", value));
    }
    if (own.deepspeed.find("train_batch_size") != nullptr) {
      const sim::Job job = sim::make_job(own);
      set.push_back(fmt::format(
          "deepspeed.train_batch_size={}",
          value * static_cast<double>(job.deepspeed.gradient_accumulation_steps * own.ranks())));
    }
  }

  static void change_hardware(const Values& values, sim::Scenario& scenario) {
    for (const auto& [name, value] : values) {
      sim::HardwareProfile& hardware = scenario.hardware;
      if (name == "host_link") {
        hardware = sim::scaled(hardware, sim::Resource::kHostLink, value);
      } else if (name == "gpu_link") {
        hardware = sim::scaled(hardware, sim::Resource::kGpuLink, value);
      } else if (name == "cores") {
        hardware.host.cores = static_cast<std::int64_t>(value);
      }
    }
  }

  static Answered answered(const LoadedJob& loaded, std::size_t shown) {
    std::vector<sim::SimulationResult> results;
    for (const sim::Schedule* schedule : loaded.schedules) {
      results.push_back(sim::simulate_schedule(loaded.job, *schedule));
    }
    const sim::SimulationResult& result = results.at(shown);
    return {
        sim::result_json(loaded.job, results, kVersion),
        page_run(briefly(loaded.job, result), *loaded.schedules[shown], result, result.schedule)};
  }

  /// The job with a run of no more steps than an answer shows: whole windows, past the first ones.
  static sim::Job briefly(sim::Job job, const sim::SimulationResult& result) {
    const auto window = static_cast<std::int64_t>(result.step_times.size());
    const std::int64_t wanted = kAnswerSpans / std::max<std::int64_t>(result.tasks, 1);
    const std::int64_t windows = std::max<std::int64_t>(2, wanted / window);
    sim::RunSettings& run = job.scenario.run;
    run.warmup_steps = std::min(run.warmup_steps, 2 * window);
    run.steps = std::min(run.steps, windows * window);
    return job;
  }

  CommonOptions common_;
  sim::LoadOptions options_;
  sim::ScenarioTree tree_;
  std::vector<Slider> sliders_;
  std::vector<std::string> schedules_;
};

HttpResponse respond(const Explorer& explorer, const std::string& page,
                     const HttpRequest& request) {
  if (request.path == "/") return {200, "text/html; charset=utf-8", page};
  if (request.path != "/answer") return {404, "text/plain", "there is / and /answer\n"};
  try {
    return {200, "application/json", explorer.answer(request.query)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    return {400, "text/plain; charset=utf-8", std::string(error.what()) + "\n"};
  }
}

}  // namespace

int explore_command(const CommonOptions& common, const ExploreOptions& options) {
  sim::check_charts();
  if (!common.quiet) (void)load_job(common, common.scenarios.front());  // for its warnings
  const Explorer explorer(common, common.scenarios.front());
  const std::string page = explorer.page();
  HttpServer server(options.port, std::max(2U, std::thread::hardware_concurrency()),
                    [&](const HttpRequest& request) { return respond(explorer, page, request); });
  print(fmt::format("http://127.0.0.1:{}/\n", server.port()));
  if (!common.quiet) complain("zenflow-sim: this machine alone can read it; Ctrl-C ends it\n");
  server.serve([] { return signal_exit_code() != 0; });
  return signal_exit_code();
}

}  // namespace zenflow::tools
