/// A timeline as a page carries it: columns of whole numbers, which take a quarter of a trace's
/// text and no time to read.
#pragma once

#include <cstddef>
#include <string>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// Fields of a JSON object, without its braces. Times are nanoseconds from the first span's start,
/// rounded; a span's start is given from the end of the one before it on its track, or from 0.
/// Spans are ordered by track, and on one by start, longer ones first. At most `most` are kept,
/// those that start first; if some are not, up to the end of a step where one fits. "spans_in_all"
/// says how many there were. Simulated launches, which stand for nothing, are left out.
[[nodiscard]] std::string timeline_fields(const Timeline& timeline, std::size_t most);

/// The instant that time zero of `timeline_fields` is; 0 if there are no spans.
[[nodiscard]] Picoseconds first_start(const Timeline& timeline);
/// Where the page's picture of `timeline` ends, for at most `most` spans: after that nothing is
/// shown.
[[nodiscard]] Picoseconds shown_until(const Timeline& timeline, std::size_t most);

}  // namespace zenflow::sim
