// Checks that the roles of a pipeline process the same tiles. Tiles that are known on the host are checked
// while the kernel is built; other tiles are checked on the device if the kernel contains checks.
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

  // The loading role calls loads() once, and then the computing role calls computes() once. Each role then
  // calls the returned function for each of its tiles. The function that computes() returns throws Error if a
  // tile is known on the host to differ from the loading role's tile. If the kernel contains checks
  // (ChecksScope), the roles exchange their tiles on the device.
  std::function<void(const GridIndex& tile)> loads(bool one_thread);
  std::function<void(const GridIndex& tile)> computes();
  // Throws Error if it is known on the host that the roles process different numbers of tiles.
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
