#include "ptxbuilder/tile/tile_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/check.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kPlaces = 4, kWords = 4;  // a place holds the indices along a tile's first 4 axes

int compared(const GridIndex& tile) { return std::min(tile.size(), kWords); }

}  // namespace

TileOrderCheck::TileOrderCheck(Kernel& k, int compute_warpgroups) {
  if (ChecksScope::messages() > 0)
    told_.emplace(k, kPlaces, kWords, compute_warpgroups * hopper::warpgroup_threads / hopper::warp_threads,
                  "tile");
}

std::vector<TileOrderCheck::Axis> TileOrderCheck::axes(const GridIndex& tile) {
  std::vector<Axis> all;
  for (int i = 0; i < tile.size(); ++i) {
    const auto known = Builder::current().constant(tile[i]);
    all.push_back({tile.axis(i), known ? std::optional(known->value) : std::nullopt});
  }
  return all;
}

std::function<void(const GridIndex&)> TileOrderCheck::loads(bool one_thread) {
  return [this, one_thread, round = std::make_shared<Var<u32>>(0)](const GridIndex& tile) {
    loaded_.push_back(axes(tile));
    if (!told_) return;
    const auto tell = [&] {
      const sptr<u32> place = told_->begin(*round);
      for (int i = 0; i < compared(tile); ++i) place[i] = tile[i];
      told_->publish(*round);
    };
    if (one_thread)
      tell();
    else
      if_(tid_x() == u32(hopper::warpgroup_threads * first_warpgroup_of_role()), tell);
    *round = round->value() + 1;
  };
}

std::function<void(const GridIndex&)> TileOrderCheck::computes() {
  return [this, round = std::make_shared<Var<u32>>(0)](const GridIndex& tile) {
    const size_t number = computed_++;
    const std::vector<Axis> mine = axes(tile);
    if (number < loaded_.size()) {
      const std::vector<Axis>& other = loaded_[number];
      for (size_t i = 0; i < std::max(mine.size(), other.size()); ++i) {
        const auto value = [i](const std::vector<Axis>& of) {
          if (i >= of.size()) return std::string("not there");
          return of[i].known ? fmt::format("{} = {}", of[i].text, *of[i].known) : of[i].text;
        };
        const bool same = i < mine.size() && i < other.size() && mine[i].text == other[i].text &&
                          (!mine[i].known || !other[i].known || mine[i].known == other[i].known);
        if (!same)
          throw Error(
              fmt::format("tiles: the roles must take the same tiles in the same order, but for tile {} the "
                          "computing role has {} and the loading role has {}",
                          number, value(mine), value(other)));
      }
    }
    if (!told_) return;
    const sptr<u32> place = told_->read(*round);
    for (int i = 0; i < compared(tile); ++i) {
      const u32 loaded = place[i];
      const std::string text = fmt::format(
          "tiles: for {} the computing role has {{}} in its tile {{}}, but the loading role has {{}}",
          tile.axis(i));
      ptxbuilder::check((loaded == tile[i]) | (tid_x() % u32(hopper::warpgroup_threads) != 0), text, tile[i],
                        round->value(), loaded);
    }
    bar_warp_sync(0xffffffff);  // all lanes have finished reading
    told_->done(*round, laneid() == 0);
    *round = round->value() + 1;
  };
}

void TileOrderCheck::end() const {
  if (computed_ != loaded_.size())
    throw Error(
        fmt::format("tiles: the roles must take the same tiles in the same order, but the host gives {} to "
                    "the computing role and {} to the loading role",
                    computed_, loaded_.size()));
}

}  // namespace ptxbuilder::detail
