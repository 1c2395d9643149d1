// The roles of a pipeline take the same tiles: what of that is known when the kernel is built, and the rest
// where it checks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::detail {

class TileOrderCheck {
 public:
  TileOrderCheck(Kernel& kernel, int compute_warpgroups);

  // The role that loads calls the first, and then the one that computes the second, each once; what it
  // returns is called for each tile. It throws Error for a tile that the host knows to be another one than
  // that of the role that loads. Where the kernel checks (ChecksScope), the roles tell each other their tiles
  // on the device.
  std::function<void(const GridIndex& tile)> loads(bool one_thread);
  std::function<void(const GridIndex& tile)> computes();
  // Throws Error where the roles are not given as many tiles by the host.
  void end() const;

 private:
  struct Axis {
    std::string text;
    std::optional<uint64_t> known;
  };
  static std::vector<Axis> axes(const GridIndex& tile);

  std::optional<Announcements> told_;
  std::vector<std::vector<Axis>> loaded_;
  size_t computed_ = 0;
};

}  // namespace ptxbuilder::detail
