/// The accuracy page: Markdown made of data, and of simulations run for it.
///
/// The data (docs/accuracy/page.yaml) are published measurements with their sources, what is
/// simulated for each, remarks, and the order in which all of it is shown:
///
///   title, introduction; scenarios, profiles   folders, relative to the file
///   numbers    by the name that texts have in braces: a quantity
///   sections   each a title and blocks, which are one of
///     text       Markdown; {name} is a number, {ID.mean}, {ID.worst}, {ID.count} a table's errors
///     results    the document NAME.json beside the data (document.h)
///     published  a file of published runs beside the data (published_runs.h), with the errors
///                {published.mean} and so on
///     table      id and rows {what, a quantity, published, rounded_to, counts, within}; ranges
///     over
///                several cases {what, metric, low, high, cases}
///     breakdown  columns {title, metric, within, points} and rows {machine, a case, published}, in
///                seconds; points: a share of the first column's value
///     constants  profiles by title; rows {path, notes by title, remark}
///
/// A case is scenario, schedule and, if need be, profile, set (as --set has it), model, step of the
/// window, and `than`, the schedule to compare with. A quantity is a case with metric ("step"),
/// unit (s, ms or none) and digits. `counts`: in the table's mean and worst. `rounded_to`: the
/// published number is exact to within half of it. `within`: relative error that a test allows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/accuracy/document.h"

namespace zenflow::sim {

/// A published number that has `within`, and what is predicted today.
struct PublishedCheck {
  std::string what;
  double predicted = 0;
  double published = 0;
  double within = 0;
};

struct AccuracyPage {
  std::string text;
  std::vector<PublishedCheck> checks;
};

/// `data`: the folder with page.yaml and the documents of our own runs, all of which are shown.
/// `version`: of the simulator. Throws Error(kInput) as reading and simulating do, and for a name
/// in braces that is not known.
[[nodiscard]] AccuracyPage accuracy_page(const std::filesystem::path& data,
                                         const std::string& version);

/// The folder with a page's data: that of docs/accuracy.md is docs/accuracy.
[[nodiscard]] std::filesystem::path page_data(const std::filesystem::path& page);
/// What a document there is called if nobody names it: "llama_10m_live_500_mb_s". `link_bandwidth`:
/// empty, or as the flag has it.
[[nodiscard]] std::string document_name(const std::string& scenario, bool live,
                                        const std::string& link_bandwidth);
/// Small letters, digits and underscores, as document_name makes them.
[[nodiscard]] bool is_document_name(const std::string& name);

/// A validation's document as a part of the page: where it comes from, the settings, the errors of
/// each metric, the judgement, remarks.
[[nodiscard]] std::string results_text(const ValidationDocument& document);

}  // namespace zenflow::sim
