/// Libraries that are opened when they are needed, so that programs start where they are missing.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::runtime {

/// A library, and what a user has to know who does not have it.
struct LibraryName {
  std::string file;      ///< "libcublas.so.13": with the version whose interface is called
  std::string purpose;   ///< "matrix products on the GPU"
  std::string provider;  ///< "CUDA 13 or the Python package nvidia-cublas"
  std::vector<std::string> python_folders{};  ///< below site-packages: "nvidia/cu13/lib"
  /// Below a toolkit's folder, beside lib64 and lib: "extras/CUPTI/lib64".
  std::vector<std::string> toolkit_folders{};
};

/// Folders that a user's environment names. The programs read the variables; this library does not.
struct LibraryFolders {
  std::optional<std::filesystem::path> own_folder{};   ///< $ZENFLOW_CUDA_LIB_DIR
  std::optional<std::filesystem::path> cuda_home{};    ///< $CUDA_HOME
  std::optional<std::filesystem::path> virtual_env{};  ///< $VIRTUAL_ENV
  std::filesystem::path default_cuda = "/usr/local/cuda";
};

/// The folders that $ZENFLOW_CUDA_LIB_DIR, $CUDA_HOME and $VIRTUAL_ENV name in `environment`; a
/// variable that is empty names none.
[[nodiscard]] LibraryFolders library_folders(const std::map<std::string, std::string>& environment);

/// One place to look: a path, or a bare file name, which the dynamic loader looks up itself
/// ($LD_LIBRARY_PATH, its cache, the system's folders).
struct LibraryCandidate {
  std::string path;
  std::string described;  ///< "$CUDA_HOME/lib64"
  bool demanded = false;  ///< the user named the folder: a file there that fails is an error
};

/// In the order of search: own folder, loader, $CUDA_HOME/lib64 and lib, the default CUDA folder,
/// each with the library's own folders of a toolkit, Python packages of the virtual environment.
/// Folders that cannot be read are left out.
[[nodiscard]] std::vector<LibraryCandidate> library_candidates(const LibraryName& name,
                                                               const LibraryFolders& folders);

/// An opened library; closed with the last owner. Moves only.
class DynamicLibrary {
 public:
  /// Opens the first candidate that there is. Throws Error(kDevice) if there is none, naming the
  /// library, its purpose, who provides it and where it was looked for with what result; and at
  /// once if the file in the user's own folder does not load: what is asked for is not replaced.
  [[nodiscard]] static DynamicLibrary open(const LibraryName& name, const LibraryFolders& folders);
  /// The library of this file name that the process has loaded already, from wherever; nothing if
  /// there is none. Nothing is loaded.
  [[nodiscard]] static std::optional<DynamicLibrary> loaded(const LibraryName& name);

  /// The function or object `symbol`; `Pointer` is its type, as decltype(&declaration).
  /// Throws Error(kDevice) if the library has none: it is another version than its name says.
  template <class Pointer>
  [[nodiscard]] Pointer symbol(const char* symbol) const {
    return reinterpret_cast<Pointer>(address(symbol));
  }
  [[nodiscard]] bool has(const char* symbol) const;

  /// The file that was loaded, symbolic links followed.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(void* handle) const;
  };
  using Handle = std::unique_ptr<void, Close>;
  DynamicLibrary(const LibraryName& name, Handle handle);
  [[nodiscard]] void* address(const char* symbol) const;

  std::string file_;
  Handle handle_;
  std::filesystem::path path_;
};

}  // namespace zenflow::runtime
