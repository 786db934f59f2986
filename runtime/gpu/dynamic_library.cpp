#include "runtime/gpu/dynamic_library.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

/// lib/python3.11/site-packages, ... of a virtual environment, in order of their names.
std::vector<fs::path> site_packages(const fs::path& virtual_env) {
  std::vector<fs::path> folders;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(virtual_env / "lib", unreadable)) {
    const fs::path packages = entry.path() / "site-packages";
    if (entry.path().filename().string().starts_with("python3") && is_there(packages)) {
      folders.push_back(packages);
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// What dlopen says, without the name that the message around it repeats.
std::string loader_error(const std::string& path) {
  const char* text = ::dlerror();
  std::string error = text == nullptr ? "no reason given" : text;
  if (error.starts_with(path + ": ")) error.erase(0, path.size() + 2);
  return error;
}

fs::path loaded_from(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) {
    return asked;
  }
  std::error_code unreadable;
  const fs::path real = fs::canonical(map->l_name, unreadable);
  return unreadable ? fs::path(map->l_name) : real;
}

// RTLD_LOCAL: another part of the process may use another version of the library.
// RTLD_NODELETE: these libraries leave threads and exit handlers behind, which must not lose
// their code when the last owner closes.
constexpr int kOpenMode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;

}  // namespace

LibraryFolders library_folders(const std::map<std::string, std::string>& environment) {
  const auto folder = [&](const char* name) -> std::optional<fs::path> {
    const auto found = environment.find(name);
    if (found == environment.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
  return {.own_folder = folder("ZENFLOW_CUDA_LIB_DIR"),
          .cuda_home = folder("CUDA_HOME"),
          .virtual_env = folder("VIRTUAL_ENV")};
}

std::vector<LibraryCandidate> library_candidates(const LibraryName& name,
                                                 const LibraryFolders& folders) {
  std::vector<LibraryCandidate> candidates;
  const auto add = [&](const fs::path& folder, std::string described, bool demanded) {
    candidates.push_back({(folder / name.file).string(), std::move(described), demanded});
  };
  if (folders.own_folder) add(*folders.own_folder, "$ZENFLOW_CUDA_LIB_DIR", true);
  candidates.push_back({name.file, "the dynamic loader", false});
  const auto add_toolkit = [&](const fs::path& toolkit, const std::string& shown,
                               std::vector<std::string> below) {
    below.insert(below.end(), name.toolkit_folders.begin(), name.toolkit_folders.end());
    for (const std::string& folder : below) add(toolkit / folder, shown + "/" + folder, false);
  };
  if (folders.cuda_home) add_toolkit(*folders.cuda_home, "$CUDA_HOME", {"lib64", "lib"});
  add_toolkit(folders.default_cuda, folders.default_cuda.string(), {"lib64"});
  if (folders.virtual_env) {
    for (const fs::path& packages : site_packages(*folders.virtual_env)) {
      for (const std::string& folder : name.python_folders) {
        const fs::path shown = fs::relative(packages, *folders.virtual_env) / folder;
        add(packages / folder, "$VIRTUAL_ENV/" + shown.generic_string(), false);
      }
    }
  }
  return candidates;
}

void DynamicLibrary::Close::operator()(void* handle) const {
  ::dlclose(handle);
}

DynamicLibrary::DynamicLibrary(const LibraryName& name, Handle handle)
    : file_(name.file), handle_(std::move(handle)), path_(loaded_from(handle_.get(), name.file)) {}

DynamicLibrary DynamicLibrary::open(const LibraryName& name, const LibraryFolders& folders) {
  std::string attempts;
  for (const LibraryCandidate& candidate : library_candidates(name, folders)) {
    const bool is_path = candidate.path.find('/') != std::string::npos;
    if (is_path && !is_there(candidate.path)) {
      attempts += fmt::format("\n  {}: not there", candidate.described);
      continue;
    }
    Handle handle(::dlopen(candidate.path.c_str(), kOpenMode));
    if (handle) return {name, std::move(handle)};
    const std::string reason = loader_error(candidate.path);
    if (candidate.demanded) {
      throw Error(ErrorKind::kDevice,
                  fmt::format("{} ({}): {} holds a file that does not load: {}", name.file,
                              name.purpose, candidate.described, reason));
    }
    attempts += fmt::format("\n  {}: {}", candidate.described, reason);
  }
  throw Error(
      ErrorKind::kDevice,
      fmt::format("{} is needed for {} and was not found; it comes with {}. Name its folder "
                  "in ZENFLOW_CUDA_LIB_DIR, or install it. Looked for in{}",
                  name.file, name.purpose, name.provider, attempts));
}

std::optional<DynamicLibrary> DynamicLibrary::loaded(const LibraryName& name) {
  Handle handle(::dlopen(name.file.c_str(), kOpenMode | RTLD_NOLOAD));
  if (!handle) return std::nullopt;
  return DynamicLibrary(name, std::move(handle));
}

bool DynamicLibrary::has(const char* symbol) const {
  return ::dlsym(handle_.get(), symbol) != nullptr;
}

void* DynamicLibrary::address(const char* symbol) const {
  void* found = ::dlsym(handle_.get(), symbol);
  if (found == nullptr) {
    throw Error(ErrorKind::kDevice, fmt::format("{}: no {} in it; {} is not the version of {} that "
                                                "is needed",
                                                path_.string(), symbol, path_.string(), file_));
  }
  return found;
}

}  // namespace zenflow::runtime
