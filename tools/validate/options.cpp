#include "tools/validate/options.h"

#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "tools/command_line.h"

namespace zenflow::tools {
namespace {

void add_live(CLI::App& app, ValidateOptions& o) {
  app.add_flag("--live", o.live, "train here: calibrate on some settings, predict the others");
  app.add_option("--device", o.device, "what trains")
      ->check(CLI::Validator(
          [](const std::string& value) {
            return check_choice({"cpu", "cuda"}, value);
          },
          "{cpu,cuda}"))
      ->capture_default_str();
  app.add_option("--calibrate", o.calibrate,
                 "settings whose recordings are fitted to: zero-offload, zenflow:K:S, "
                 "zenflow:K:S:device (--accumulate-on device), ...; of --trace none unless given")
      ->delimiter(',')
      ->each([&o](const std::string&) { o.calibrate_given = true; })
      ->capture_default_str();
  app.add_option("--predict", o.predict, "of --live: settings that are predicted")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--data", o.data, "text or tokens to train on; else pseudo-random bytes");
  app.add_option("--link-bandwidth", o.link_bandwidth,
                 "slow copies down to this, in each direction, e.g. \"2 GB/s\"");
  app.add_option("--rounds", o.rounds, "runs of every setting, at least")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--most-rounds", o.most_rounds,
                 "more of them, until they agree within a third of --tolerance")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_traces(CLI::App& app, ValidateOptions& o) {
  app.add_option("--trace", o.traces, "recorded runs to hold the predictions against")
      ->type_name("FILE...");
  app.add_option("--setting", o.settings,
                 "of traces of zenflow-train: zero-offload, zenflow:K:S, ...; once, or once for "
                 "each trace, in their order")
      ->delimiter(',');
  app.add_option("--schedule", o.schedules,
                 "of other programs' traces: the schedule that predicts them; likewise")
      ->delimiter(',');
  app.add_option("--first-step", o.first_step,
                 "of a trace: how many steps at its beginning do not count; else two windows of "
                 "zenflow-train's, none of others'")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--steps", o.steps, "of a trace: regular expression for ranges that are steps");
  app.add_option("--rules", o.rules, "of a trace: phases and lanes by name (YAML, docs/traces.md)");
}

void add_tolerance(CLI::App& app, ValidateOptions& o) {
  const CLI::Range percent(0.0, 1000.0);
  const CLI::Validator percent_or_any(
      [percent](const std::string& value) {
        return value == kNotJudged ? std::string() : percent(value);
      },
      fmt::format("PERCENT or {}", kNotJudged));
  app.add_option("--tolerance", o.tolerance,
                 "mean error of the step time, percent [8; of --live --device cuda 3]")
      ->check(percent);
  app.add_option("--worst", o.worst,
                 "largest error of the step time, percent [15; of --live --device cuda 8]")
      ->check(percent);
  app.add_option("--stall-tolerance", o.stall,
                 "largest error of the stall, percent of the step; any: not judged [5; of --live "
                 "--device cuda any]")
      ->check(percent_or_any);
  app.add_option("--bytes-tolerance", o.bytes,
                 "largest error of the bytes, percent; any: not judged, else unknown bytes are "
                 "outside [0 of --live --device cpu, else 0.1]")
      ->check(percent_or_any);
}

void add_outputs(CLI::App& app, ValidateOptions& o) {
  app.add_option("--write-profile", o.write_profile, "the base profile with the fitted numbers");
  app.add_option("--overlay", o.overlay,
                 "a Chrome trace with predicted and measured lanes one above the other; gzip if "
                 "the name ends in .gz");
  app.add_option("--write", o.page,
                 "PAGE.md: keep the result as PAGE/NAME.json and write the page anew from what is "
                 "there; without a scenario write it only");
  app.add_option("--name", o.name, "of --write: NAME, else made of scenario and link");
  app.add_option("--machine", o.machine, "of --write: on which machine, for people");
  app.add_option("--remark", o.remarks, "of --write: what the page says of the result (repeatable)")
      ->take_all();
  app.add_option("--date", o.date, "of the measurement, in place of today's");
  app.add_flag("-f,--force", o.overwrite, "overwrite existing files");
  app.add_flag("--json", o.json, "one document on standard output");
  app.add_flag("-q,--quiet", o.quiet, "no progress and no notes");
}

void expect(bool given, const char* what) {
  if (!given) throw Error(ErrorKind::kInput, fmt::format("expected {}", what));
}

}  // namespace

void add_validate_options(CLI::App& app, ValidateOptions& options) {
  app.add_option("SCENARIO", options.scenario, "model, training settings, base profile");
  add_live(app, options);
  add_traces(app, options);
  add_tolerance(app, options);
  app.add_option("--profile", options.profile, "base profile in place of the scenario's");
  app.add_option("--set", options.set, "PATH=VALUE, a scenario key (repeatable)");
  add_outputs(app, options);
}

void check_validate_options(const ValidateOptions& o) {
  const bool compares = o.live || !o.traces.empty();
  expect(compares || !o.page.empty(),
         "--live: train here and compare; --trace FILE...: compare recorded runs; or --write PAGE");
  expect(!(o.live && !o.traces.empty()), "--live or --trace, not both");
  if (!compares) {
    expect(o.scenario.empty(), "--live or --trace with a scenario; --write alone takes none");
    return;
  }
  expect(!o.scenario.empty(), "SCENARIO: model, training settings, base profile");
  expect(o.live || o.device == "cpu", "--live with --device: it says what trains here");
  if (o.live) {
    expect(o.device == "cpu" || o.link_bandwidth.empty(),
           "--device cpu with --link-bandwidth: a GPU's link is as fast as it is");
    expect(o.settings.empty() && o.schedules.empty(),
           "--calibrate and --predict with --live: --setting and --schedule are of --trace");
    return;
  }
  const auto fits = [&](const std::vector<std::string>& list) {
    return list.empty() || list.size() == 1 || list.size() == o.traces.size();
  };
  expect(o.settings.empty() || o.schedules.empty(),
         "--setting (traces of zenflow-train) or --schedule (of others), not both");
  expect(fits(o.settings), "--setting once, or once for each trace");
  expect(fits(o.schedules), "--schedule once, or once for each trace");
  expect(!o.calibrate_given || !o.settings.empty(),
         "--setting with --calibrate: only recordings of zenflow-train are fitted to here");
  expect(o.write_profile.empty() || o.calibrate_given,
         "--calibrate with --write-profile: without it nothing is fitted");
}

std::string command_text(int argc, char** argv) {
  constexpr std::array<std::string_view, 2> kTexts = {"--remark", "--machine"};
  constexpr std::string_view kPlain = "-_./:=,+%@";
  std::string text = "zenflow-validate";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
    if (std::find(kTexts.begin(), kTexts.end(), name) != kTexts.end()) {
      if (name.size() == argument.size()) ++i;
      continue;
    }
    const bool plain =
        !argument.empty() && std::all_of(argument.begin(), argument.end(), [&](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
        });
    text += plain ? " " + argument : " \"" + argument + "\"";
  }
  return text;
}

}  // namespace zenflow::tools
