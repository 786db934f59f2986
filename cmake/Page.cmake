# What pages of --report are made of, as part of the programs: our style and script (sim/page/assets), and Chart.js of
# the Debian package libjs-chart.js. Without that package everything is built, and --report says what is missing.
set(ZENFLOW_PAGE_SCRIPTS format.js data.js theme.js timeline.js timeline_input.js memory.js charts.js tables.js
                         runs.js tuning.js validation.js published.js overview.js explore.js main.js)
find_file(ZENFLOW_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH
          DOC "Chart.js, version 3, in one file")
find_file(ZENFLOW_CHART_NOTICE copyright PATHS /usr/share/doc/libjs-chart.js NO_DEFAULT_PATH
          DOC "Copyright and licence of Chart.js, which goes with every copy")
if(ZENFLOW_CHART_JS AND ZENFLOW_CHART_NOTICE)
  set(ZENFLOW_HAVE_CHARTS ON)
  message(STATUS "Pages: charts by ${ZENFLOW_CHART_JS}")
else()
  set(ZENFLOW_HAVE_CHARTS OFF)
  message(STATUS "Pages: no Chart.js with its licence (libjs-chart.js): --report will refuse")
endif()

# zenflow_embed_page(<target>): adds the files as strings, declared in sim/page/assets.h.
function(zenflow_embed_page target)
  set(assets ${PROJECT_SOURCE_DIR}/sim/page/assets)
  list(TRANSFORM ZENFLOW_PAGE_SCRIPTS PREPEND ${assets}/ OUTPUT_VARIABLE scripts)
  set(made ${PROJECT_BINARY_DIR}/generated/sim/page_assets.cpp)
  set(charts)
  set(notice)
  if(ZENFLOW_HAVE_CHARTS)
    set(charts ${ZENFLOW_CHART_JS})
    set(notice ${ZENFLOW_CHART_NOTICE})
  endif()
  add_custom_command(OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${made} -DPAGE=${assets}/page.html -DSTYLE=${assets}/page.css
            "-DSCRIPT=${scripts}" "-DCHARTS=${charts}" "-DNOTICE=${notice}" -P ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake
    DEPENDS ${assets}/page.html ${assets}/page.css ${scripts} ${charts} ${notice}
            ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake
    COMMENT "Embedding what pages are made of" VERBATIM)
  target_sources(${target} PRIVATE ${made})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  # Strings longer than each compiler has to take.
  set_source_files_properties(${made} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
                              COMPILE_OPTIONS -Wno-overlength-strings)
endfunction()
