/// What every page is made of; the files are in sim/page/assets, and cmake/Page.cmake embeds them.
#pragma once

#include <string_view>

namespace zenflow::sim {

extern const std::string_view kAssetPage;    ///< HTML with places to fill in: "<!--NAME-->"
extern const std::string_view kAssetStyle;   ///< CSS
extern const std::string_view kAssetScript;  ///< our script
extern const std::string_view kAssetCharts;  ///< Chart.js; empty: the build had none
extern const std::string_view kAssetNotice;  ///< its copyright and licence

}  // namespace zenflow::sim
