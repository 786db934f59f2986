#include "tools/validate/options.h"

#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "tools/command_line.h"
#include "tools/report_page.h"

namespace zenflow::tools {
namespace {

void add_live(CLI::App& app, ValidateOptions& o) {
  app.add_flag(
      "--live", o.live,
      "train here: fit a profile to some settings (--calibrate), predict the others (--predict)");
  app.add_option("--device", o.device, "with --live: what trains, the CPU or a GPU")
      ->check(CLI::Validator(
          [](const std::string& value) {
            return check_choice({"cpu", "cuda"}, value);
          },
          "{cpu,cuda}"))
      ->capture_default_str();
  app.add_option("--calibrate", o.calibrate,
                 "settings whose recordings the profile is fitted to: zero-offload, zenflow:K:S, "
                 "zenflow:K:S:device (--accumulate-on device), ...; with --trace none unless given")
      ->delimiter(',')
      ->each([&o](const std::string&) { o.calibrate_given = true; })
      ->capture_default_str();
  app.add_option("--predict", o.predict, "with --live: settings that are predicted and run")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--data", o.data,
                 "with --live: text or tokens to train on; default: pseudo-random bytes");
  app.add_option("--link-bandwidth", o.link_bandwidth,
                 "with --live: slow copies in each direction down to this, e.g. \"2 GB/s\"");
  app.add_option("--rounds", o.rounds, "with --live: runs of every setting, at least")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--most-rounds", o.most_rounds,
                 "with --live: runs of every setting, at most, until they agree within a third of "
                 "--tolerance")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_traces(CLI::App& app, ValidateOptions& o) {
  app.add_option("--trace", o.traces,
                 "recorded runs to hold predictions against, in place of --live")
      ->type_name("FILE...");
  app.add_option("--setting", o.settings,
                 "with traces of zenflow-train: their settings, zero-offload, zenflow:K:S, ...; "
                 "once, or once for each trace, in their order")
      ->delimiter(',');
  app.add_option("--schedule", o.schedules,
                 "with traces of other programs: the schedule that predicts them; once, or once "
                 "for each trace, in their order")
      ->delimiter(',');
  app.add_option("--first-step", o.first_step,
                 "with --trace: how many steps at the beginning are left out; default: two windows "
                 "of zenflow-train's runs, none of others'")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--steps", o.steps,
                 "with --trace: regular expression for the ranges that are steps");
  app.add_option("--rules", o.rules,
                 "with --trace: file that names phases and lanes (YAML, docs/traces.md)");
}

void add_published(CLI::App& app, ValidateOptions& o) {
  app.add_option_function<std::string>(
         "--published",
         [&o](const std::string& file) {
           o.published = true;
           o.published_file = file;
         },
         "hold predictions against runs that others published: a file of rows "
         "(docs/accuracy/published/README.md) with models/ and profiles/ beside it; default: those "
         "that ship with the program")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

void add_tolerance(CLI::App& app, ValidateOptions& o) {
  const CLI::Validator percent(
      [](const std::string& value) {
        double number = 0;
        const bool is_number = CLI::detail::lexical_cast(value, number);
        return is_number && number >= 0 && number <= 1000  // and not NaN
                   ? std::string()
                   : fmt::format("expected a number from 0 to 1000, found \"{}\"", value);
      },
      "FLOAT in [0 - 1000]");
  const CLI::Validator percent_or_any(
      [percent](const std::string& value) {
        return value == sim::kNotJudged ? std::string() : percent(value);
      },
      fmt::format("PERCENT or {}", sim::kNotJudged));
  app.add_option("--tolerance", o.tolerance,
                 "largest mean error of step times, in percent [default 8; with --live --device "
                 "cuda 3; with "
                 "--published not judged]")
      ->check(percent);
  app.add_option("--worst", o.worst,
                 "largest error of any step time, in percent [default 15; with --live --device "
                 "cuda 8; with "
                 "--published not judged]")
      ->check(percent);
  app.add_option("--stall-tolerance", o.stall,
                 "largest error of the stall, in percent of the step; any: not judged [default 5; "
                 "with --live --device cuda any]")
      ->check(percent_or_any);
  app.add_option("--bytes-tolerance", o.bytes,
                 "largest error of the bytes, in percent; any: not judged, else unknown bytes are "
                 "outside [default 0 with --live --device cpu, else 0.1]")
      ->check(percent_or_any);
}

void add_outputs(CLI::App& app, ValidateOptions& o) {
  app.add_option("--write-profile", o.write_profile,
                 "write the base profile with the fitted numbers here");
  app.add_option("--overlay", o.overlay,
                 "write a Chrome trace with predicted and measured lanes one above the other; gzip "
                 "if the name ends in .gz");
  app.add_option("--write", o.page,
                 "PAGE.md: keep the result as PAGE/NAME.json, and write the page anew from all "
                 "that is kept; without a scenario only write the page");
  app.add_option("--name", o.name,
                 "with --write: the NAME of the result; default: made of scenario and link");
  app.add_option("--machine", o.machine, "with --write: what the page calls the machine");
  app.add_option("--remark", o.remarks,
                 "with --write: what the page says of the result (repeatable)")
      ->take_all();
  app.add_option("--date", o.date, "date of the measurement; default: today");
  app.add_flag("-f,--force", o.overwrite, "overwrite existing files");
  add_report_option(app, o.report);
  app.add_flag("--json", o.json, "print one JSON document on standard output");
  app.add_flag("-q,--quiet", o.quiet, "no progress and no notes");
}

/// What would be passed over in silence.
void add_needs(CLI::App& app) {
  need(app, app.get_option("--live"),
       {"--predict", "--data", "--link-bandwidth", "--rounds", "--most-rounds"});
  need(app, app.get_option("--trace"),
       {"--setting", "--schedule", "--first-step", "--steps", "--rules"});
  need(app, app.get_option("--write"), {"--name", "--machine", "--remark"});
}

void expect(bool given, const char* what) {
  if (!given) throw Error(ErrorKind::kInput, fmt::format("expected {}", what));
}

}  // namespace

void add_validate_options(CLI::App& app, ValidateOptions& options) {
  app.add_option("SCENARIO", options.scenario,
                 "scenario file (YAML): model, training settings, base profile");
  add_live(app, options);
  add_traces(app, options);
  add_published(app, options);
  add_tolerance(app, options);
  app.add_option("--profile", options.profile, "base profile in place of the scenario's");
  app.add_option("--set", options.set, "override a scenario key: PATH=VALUE (repeatable)");
  add_outputs(app, options);
  add_needs(app);
}

void check_validate_options(const ValidateOptions& o) {
  const bool compares = o.live || !o.traces.empty();
  if (o.published) {
    expect(!compares && o.page.empty() && o.scenario.empty(),
           "--published without SCENARIO, --live, --trace and --write: its rows say all");
    expect(!o.profile && o.set.empty() && o.stall.empty() && o.bytes.empty() &&
               o.write_profile.empty() && o.overlay.empty(),
           "with --published no more than --json, --report, --tolerance and --worst");
    return;
  }
  expect(compares || !o.page.empty(),
         "--live: train here and compare; --trace FILE...: compare recorded runs; --published: "
         "runs of others; or --write PAGE");
  expect(!(o.live && !o.traces.empty()), "--live or --trace, not both");
  if (!compares) {
    expect(!o.report, "--live or --trace with --report");
    expect(o.scenario.empty(), "--live or --trace with a scenario; --write alone takes none");
    return;
  }
  expect(!o.scenario.empty(), "SCENARIO: model, training settings, base profile");
  expect(o.live || o.device == "cpu", "--live with --device: it says what trains here");
  if (o.live) {
    expect(o.rounds <= o.most_rounds, "--rounds of at most --most-rounds");
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
