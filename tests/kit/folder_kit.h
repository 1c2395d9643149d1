// A temporary folder for a test, with executables in it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

// A new folder. It and its contents are removed at the end of its scope.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ptxbuilder_test.XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  // Returns a path in the folder without creating anything.
  std::string path(const std::string& name = "new") const { return path_ / name; }

  // Writes an executable shell script that replaces a tool.
  std::string script(const std::string& name, const std::string& body) const {
    namespace fs = std::filesystem;
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(path(name), fs::perms::owner_all);
    return path(name);
  }

 private:
  std::filesystem::path path_;
};
