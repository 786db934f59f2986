/// The accuracy page: Markdown made of data, and of simulations run for it.
#pragma once

#include <filesystem>
#include <string>

namespace zenflow::sim {

/// `data`: the folder with page.yaml (page_data.h) and the documents of our own runs
/// (document.h), all of which are shown. `version`: of the simulator.
/// Throws Error(kInput) as reading and simulating do, and for a name in braces that is not known.
[[nodiscard]] std::string accuracy_page(const std::filesystem::path& data,
                                        const std::string& version);

}  // namespace zenflow::sim
