// Checks that the roles of a pipeline take the same tiles: while the kernel is built, for tiles that are
// known then, and otherwise on the device, if the kernel contains checks.
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

  // The loading role calls loads(), and then the computing role calls computes(), each once; the returned
  // function is called for each tile. It throws Error for a tile that the host knows to differ from the
  // loading role's tile. If the kernel contains checks (ChecksScope), the roles exchange their tiles on the
  // device.
  std::function<void(const GridIndex& tile)> loads(bool one_thread);
  std::function<void(const GridIndex& tile)> computes();
  // Throws Error if the host knows that the roles take different numbers of tiles.
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
