#include "runtime/gpu/dynamic_library.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/gpu/libraries.h"
#include "runtime/gpu/nvml.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

const fs::path kFakes = ZENFLOW_FAKE_LIBRARIES;

std::vector<std::string> described(const LibraryName& name, const LibraryFolders& folders) {
  std::vector<std::string> all;
  for (const LibraryCandidate& one : library_candidates(name, folders))
    all.push_back(one.described);
  return all;
}

LibraryName missing_library() {
  return {.file = "libzenflow-nowhere.so.7", .purpose = "nothing", .provider = "Nobody 7"};
}

TEST(DynamicLibrary, IsSearchedInTheDocumentedOrder) {
  const TemporaryFolder folder;
  folder.write("venv/lib/python3.12/site-packages/x", "");
  folder.write("venv/lib/python3.9/site-packages/x", "");
  folder.write("venv/lib/ruby/site-packages/x", "");
  const LibraryFolders folders{.own_folder = folder / "own",
                               .cuda_home = folder / "cuda",
                               .virtual_env = folder / "venv",
                               .default_cuda = "/opt/cuda"};
  EXPECT_THAT(described(cublas_library(13), folders),
              ElementsAre("$ZENFLOW_CUDA_LIB_DIR", "the dynamic loader", "$CUDA_HOME/lib64",
                          "$CUDA_HOME/lib", "/opt/cuda/lib64",
                          "$VIRTUAL_ENV/lib/python3.12/site-packages/nvidia/cu13/lib",
                          "$VIRTUAL_ENV/lib/python3.9/site-packages/nvidia/cu13/lib"));
  EXPECT_THAT(
      described(cupti_library(12), {.cuda_home = folder / "cuda", .virtual_env = folder / "venv"}),
      ElementsAre("the dynamic loader", "$CUDA_HOME/lib64", "$CUDA_HOME/lib",
                  "$CUDA_HOME/extras/CUPTI/lib64", "/usr/local/cuda/lib64",
                  "/usr/local/cuda/extras/CUPTI/lib64",
                  "$VIRTUAL_ENV/lib/python3.12/site-packages/nvidia/cuda_cupti/lib",
                  "$VIRTUAL_ENV/lib/python3.9/site-packages/nvidia/cuda_cupti/lib"));
}

TEST(DynamicLibrary, FoldersAreWhatVariablesName) {
  const LibraryFolders folders = library_folders({{"ZENFLOW_CUDA_LIB_DIR", "/own"},
                                                  {"CUDA_HOME", ""},
                                                  {"VIRTUAL_ENV", "/venv"},
                                                  {"HOME", "/root"}});
  EXPECT_EQ(folders.own_folder, "/own");
  EXPECT_EQ(folders.cuda_home, std::nullopt);
  EXPECT_EQ(folders.virtual_env, "/venv");
  EXPECT_EQ(library_folders({{"CUDA_HOME", "/cuda"}}).cuda_home, "/cuda");
}

TEST(DynamicLibrary, FindsOneThatIsLoadedAlreadyWhereverItCameFrom) {
  // No other test here loads it, and what is loaded stays.
  EXPECT_FALSE(DynamicLibrary::loaded(missing_library()).has_value());
  // A part of the C library, so that the loader would find it, but nobody here uses it.
  EXPECT_FALSE(DynamicLibrary::loaded({.file = "libanl.so.1", .purpose = "", .provider = ""}));
  const DynamicLibrary opened = DynamicLibrary::open(nvml_library(), {.own_folder = kFakes});
  const auto loaded = DynamicLibrary::loaded(nvml_library());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->path(), opened.path());
}

TEST(DynamicLibrary, NamesTheVersionThatItCalls) {
  EXPECT_EQ(cublas_library(13).file, "libcublas.so.13");
  EXPECT_EQ(cublas_lt_library(12).file, "libcublasLt.so.12");
  EXPECT_EQ(cupti_library(13).file, "libcupti.so.13");
  EXPECT_THAT(cublas_library(12).provider, HasSubstr("nvidia-cublas-cu12"));
}

TEST(DynamicLibrary, SaysWhatIsMissingWhatForAndWhereItLooked) {
  const TemporaryFolder folder;
  const auto [kind, message] = error_of(
      [&] { return DynamicLibrary::open(missing_library(), {.cuda_home = folder.path()}); });
  EXPECT_EQ(kind, ErrorKind::kDevice);
  EXPECT_THAT(message, AllOf(HasSubstr("libzenflow-nowhere.so.7 is needed for nothing"),
                             HasSubstr("Nobody 7"), HasSubstr("ZENFLOW_CUDA_LIB_DIR"),
                             HasSubstr("the dynamic loader: cannot open shared object file"),
                             HasSubstr("$CUDA_HOME/lib64: not there")));
}

TEST(DynamicLibrary, SkipsABrokenFileButNotInTheFolderThatTheUserNamed) {
  const TemporaryFolder folder;
  folder.write("lib64/libzenflow-nowhere.so.7", "not a library");
  EXPECT_THAT(error_of([&] {
                return DynamicLibrary::open(missing_library(), {.cuda_home = folder.path()});
              }).second,
              HasSubstr("$CUDA_HOME/lib64: file too short"));
  EXPECT_THAT(error_of([&] {
                return DynamicLibrary::open(missing_library(), {.own_folder = folder / "lib64"});
              }).second,
              AllOf(HasSubstr("$ZENFLOW_CUDA_LIB_DIR holds a file that does not load"),
                    HasSubstr("file too short")));
}

TEST(DynamicLibrary, KnowsItsFileAndItsSymbols) {
  const DynamicLibrary library = DynamicLibrary::open(nvml_library(), {.own_folder = kFakes});
  EXPECT_EQ(library.path(), fs::canonical(kFakes / "libnvidia-ml.so.1"));
  unsigned count = 0;
  EXPECT_EQ(library.symbol<int (*)(unsigned*)>("nvmlDeviceGetCount_v2")(&count), 0);
  EXPECT_EQ(count, 2U);
  EXPECT_FALSE(library.has("nvmlNothing"));
  const auto [kind, message] = error_of([&] { return library.symbol<int (*)()>("nvmlNothing"); });
  EXPECT_EQ(kind, ErrorKind::kDevice);
  EXPECT_THAT(message, AllOf(HasSubstr("no nvmlNothing in it"), HasSubstr("libnvidia-ml.so.1")));
}

TEST(Nvml, ReadsDriverAndLinksAndShutsDown) {
  const LibraryFolders folders{.own_folder = kFakes};
  const DynamicLibrary fake = DynamicLibrary::open(nvml_library(), folders);
  const auto initialised = fake.symbol<int (*)()>("fake_nvml_initialised");
  {
    const Nvml nvml(folders);
    EXPECT_EQ(initialised(), 1);
    EXPECT_EQ(nvml.driver_release(), "580.65.06");
    const std::vector<NvmlGpu> gpus = nvml.gpus();
    ASSERT_EQ(gpus.size(), 2U);
    EXPECT_EQ(gpus[0].name, "Fake GPU 0");
    EXPECT_EQ(gpus[0].bus_id, "0000:3b:00.0");
    EXPECT_EQ(gpus[0].link_generation, 1U);
    EXPECT_EQ(gpus[0].link_generation_max, 5U);
    EXPECT_EQ(gpus[0].link_width, 8U);
    EXPECT_EQ(gpus[0].link_width_max, 16U);
    EXPECT_EQ(gpus[1].bus_id, "0000:3c:00.0");
    EXPECT_EQ(gpus[1].link_width, std::nullopt);
  }
  EXPECT_EQ(initialised(), 0);
}

}  // namespace
}  // namespace zenflow::runtime
