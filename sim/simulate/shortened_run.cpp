#include "sim/simulate/shortened_run.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

/// What is built of a window, and which of it stands for which of its steps.
struct ShortenedWindow {
  WindowShape shape;
  std::vector<std::size_t> shown_steps;
  bool cut = false;
};

/// Steps between a window's first and last are alike unless they select.
ShortenedWindow shorten(const WindowShape& whole, std::size_t keep) {
  ShortenedWindow window{whole, {}, false};
  const auto steps = static_cast<std::size_t>(whole.steps);
  const std::size_t built = keep + 3;
  const bool selects_within =
      std::any_of(whole.select_at.begin(), whole.select_at.end(),
                  [&](std::int32_t at) { return at != 0 && at + 1 != whole.steps; });
  window.cut = keep > 0 && !selects_within && built + 1 < steps;
  for (std::size_t i = 0; i < steps; ++i) {
    const bool last_two = i + 2 >= steps;
    window.shown_steps.push_back(!window.cut ? i
                                 : last_two  ? built - (steps - i)
                                             : std::min(i, built - 3));
  }
  if (!window.cut) return window;
  window.shape.steps = static_cast<std::int32_t>(built);
  for (std::int32_t& at : window.shape.select_at) {
    if (at != 0) at = window.shape.steps - 1;
  }
  return window;
}

/// Windows from the steps that show theirs.
std::vector<WindowMetrics> put_together(const ShortenedRun& run,
                                        const std::vector<WindowMetrics>& steps) {
  std::vector<WindowMetrics> windows;
  std::size_t first = 0;
  for (std::size_t i = 0; i + 1 < run.windows.size(); ++i) {
    WindowMetrics& window = windows.emplace_back();
    for (const std::size_t shown : run.shown_steps[i]) {
      const WindowMetrics& step = steps[first + shown];
      window.step_times.push_back(step.step_times.front());
      window.compute += step.compute;
      for (std::size_t cause = 0; cause < kStallCauses; ++cause) {
        window.stall[cause] += step.stall[cause];
      }
      window.d2h_bytes += step.d2h_bytes;
      window.h2d_bytes += step.h2d_bytes;
      window.between_ranks += step.between_ranks;
    }
    first += static_cast<std::size_t>(run.windows[i].steps);
  }
  return windows;
}

}  // namespace

ShortenedRun shorten(const std::vector<WindowShape>& windows, const Kept& kept) {
  ShortenedRun run;
  std::size_t steps = 0;  // built so far
  for (std::size_t begin = 0; begin < windows.size();) {
    std::size_t end = begin + 1;
    while (end < windows.size() && windows[end].same_kind(windows[begin])) ++end;
    const std::size_t length = end - begin;
    const std::size_t built = std::min(length, kept.windows + 1);
    const std::size_t base = run.windows.size();
    for (std::size_t i = 0; i < built; ++i) {
      ShortenedWindow window = shorten(windows[begin + i], kept.steps);
      const auto of_window = static_cast<std::size_t>(window.shape.steps);
      if (i == kept.windows && built < length)
        run.repetitions.push_back({steps, steps - of_window});
      if (window.cut) run.repetitions.push_back({steps + kept.steps + 1, steps + kept.steps});
      steps += of_window;
      run.windows.push_back(std::move(window.shape));
      run.shown_steps.push_back(std::move(window.shown_steps));
    }
    for (std::size_t i = 0; i < length; ++i) {
      // The last of a stretch is followed by another kind, so the last one built shows it.
      const std::size_t shown =
          i + 1 == length ? built - 1 : std::min(i, built < length ? built - 2 : built - 1);
      run.shown_by.push_back(base + shown);
    }
    begin = end;
  }
  return run;
}

ShortenedExecution simulate_shortened(const Program& program, const ShortenedRun& run) {
  std::vector<std::size_t> marked;
  for (const ShortenedRun::Repetition& one : run.repetitions) {
    marked.push_back(one.earlier);
    marked.push_back(one.step);
  }
  std::sort(marked.begin(), marked.end());
  marked.erase(std::unique(marked.begin(), marked.end()), marked.end());
  const auto place_of = [&](std::size_t step) {
    return static_cast<std::uint32_t>(std::lower_bound(marked.begin(), marked.end(), step) -
                                      marked.begin());
  };
  std::vector<Window> markers;
  for (const std::size_t step : marked) {
    const TaskId marker = program.step_markers[step];
    markers.push_back({marker, marker, 0});
  }
  // What comes before a window's first forward is of that window, not of the one before.
  for (const Window& window : program.windows) {
    const auto opens = std::find_if(markers.begin(), markers.end(),
                                    [&](const Window& one) { return one.marker == window.marker; });
    if (opens != markers.end()) opens->first = window.first;
  }
  std::vector<std::uint32_t> compared_with(markers.size(), kNoWindow);
  for (const ShortenedRun::Repetition& one : run.repetitions) {
    compared_with[place_of(one.step)] = place_of(one.earlier);
  }
  ShortenedExecution result{simulate_windows(program.graph, markers, compared_with), true};
  for (const ShortenedRun::Repetition& one : run.repetitions) {
    result.repeats = result.repeats && result.execution.repeats[place_of(one.step)];
  }
  return result;
}

std::vector<WindowMetrics> shown_metrics(const Program& program, const Execution& execution,
                                         const ShortenedRun& run) {
  const auto is_whole = [](const std::vector<std::size_t>& shown, const WindowShape& shape) {
    return shown.size() == static_cast<std::size_t>(shape.steps);
  };
  if (std::equal(run.shown_steps.begin(), run.shown_steps.end(), run.windows.begin(), is_whole)) {
    return window_metrics(program, execution);
  }
  return put_together(run, step_metrics(program, execution));
}

std::vector<WindowMetrics> shown_step_times(const Program& program, const Execution& execution,
                                            const ShortenedRun& run) {
  std::vector<WindowMetrics> steps;
  for (std::size_t step = 0; step + 1 < program.step_markers.size(); ++step) {
    steps.emplace_back().step_times = {mean_step_time(program, execution, step)};
  }
  return put_together(run, steps);
}

}  // namespace zenflow::sim
