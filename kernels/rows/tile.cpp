#include "kernels/rows/tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int64_t kThreads = RegisterLayout::kThreads, kWarp = 32;
constexpr int64_t kFewWarpgroups = 4, kCtasOfWarpgroup = 8;
constexpr int kMostCtas = 16;
constexpr int kWidest = 8;  // 16-bit elements in a wide access
constexpr int kValuesOfNarrow = 16;
constexpr int64_t kMostAccessesOfPiece = 16;
constexpr int kBytesOfPiece = 32, kMostPieces = 4,
              kLeastCopy = 4;  // limits for a thread's part of a row in shared memory

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the number of CTAs that share a row. It is 1 if a single CTA can hold the row. Otherwise, CTAs with
// fewer warps are preferred, since more of them run at once and the CTAs of a cluster wait less for each
// other. If CTAs stay resident, they have fewer warps still, so that an SM holds several CTAs and processes
// one row while another waits.
int ctas_for(int64_t warpgroups, int64_t most_of_cta, bool stays) {
  const int64_t most = stays ? std::max(most_of_cta / 2, int64_t{1}) : most_of_cta;
  if (warpgroups <= most) return 1;
  const int64_t few = ceil_div(warpgroups, std::min(kFewWarpgroups, most)),
                ctas = stays ? std::max(few, std::min(warpgroups, kCtasOfWarpgroup)) : few;
  return static_cast<int>(
      std::min<int64_t>(kMostCtas, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ctas)))));
}

}  // namespace

RegisterLayout RowTile::layout() const {
  const int columns = columns_of_warp(), groups = RegisterLayout::kThreads / lanes;
  const Layout elements = make_layout({{lanes, groups}, {vector, vectors, rows_of_thread}},
                                      {{vector, columns}, {1, vector * lanes, groups * columns}});
  return RegisterLayout({groups * rows_of_thread, columns}, elements,
                        fmt::format("rows of {} by {} threads", columns, lanes));
}

std::string row_parts_rule(const RowTile& t) {
  return fmt::format("min(ceil_div(rows, {}), max(1, {} * multiprocessors / {}))", t.rows(),
                     hopper::clusters_at_once(t.ctas) * t.at_once, hopper::multiprocessors);
}
int64_t row_parts(const RowTile& t, int64_t rows, int64_t multiprocessors) {
  const int64_t at_once =
      hopper::clusters_at_once(t.ctas) * t.at_once * multiprocessors / hopper::multiprocessors;
  return std::min(ceil_div(rows, t.rows()), std::max<int64_t>(1, at_once));
}

RowTile row_tile(int64_t columns, int bytes, int vector, const RowLimits& limits, int ctas, Where where) {
  RowTile t;
  int values = bytes > 2 || vector == 1 ? limits.values_of_words : limits.values,
      threads_at_once = limits.threads_at_once;
  t.vector = std::min(vector, values);
  const int64_t accesses = ceil_div(columns, t.vector);
  if (bytes == 2 && vector == kWidest && accesses > values / kWidest * kWarp &&
      accesses <= limits.values_of_warp / kWidest * kWarp)
    values = limits.values_of_warp, threads_at_once = limits.threads_of_warps;
  const int64_t warpgroups_of_cta = threads_at_once / kThreads;
  const auto held = [&](int64_t threads, int times) {
    return accesses <= values * times / t.vector * threads;
  };
  // If elements are read one by one, CTAs with fewer threads and more elements in flight per thread are
  // faster.
  const auto few = [&](int times) { return ceil_div(accesses, values * times / t.vector * kThreads); };
  t.is_wide = limits.wide > 1 &&
              ((!held(kWarp, 1) && held(kWarp, limits.wide)) || !held(kThreads * warpgroups_of_cta, 1) ||
               (t.vector == 1 && few(limits.wide) < few(1)));
  if (t.is_wide) values *= limits.wide;
  const int64_t of_thread = values / t.vector;
  const int64_t most =
      std::min(kMostColumns, int64_t{values} * kThreads * warpgroups_of_cta * (ctas > 0 ? ctas : kMostCtas));
  if (columns < 1 || columns > most)
    throw Error(where, fmt::format("rows of {} columns; they must have 1 to {}", columns, most));
  t.lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min(kWarp, accesses))));
  const bool is_beyond_few = ctas == 0 && accesses > of_thread * kThreads * kFewWarpgroups;
  if (limits.in_pieces && is_beyond_few) {
    t.is_in_pieces = true;
    t.warps = RowTile::kWarps * kFewWarpgroups;
  } else if (limits.waiting > 0 && is_beyond_few && t.vector * bytes >= kLeastCopy) {
    t.warps = RowTile::kWarps * kFewWarpgroups;
    const int64_t of_piece = std::max(1, kBytesOfPiece / (t.vector * bytes)),
                  most = kMostPieces / limits.waiting,
                  ctas_needed = ceil_div(accesses, of_piece * most * kThreads * kFewWarpgroups);
    t.vectors = static_cast<int>(of_piece);
    t.ctas = static_cast<int>(std::min<int64_t>(
        kMostCtas, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ctas_needed)))));
    t.pieces = static_cast<int>(ceil_div(accesses, of_piece * kThreads * kFewWarpgroups * t.ctas));
  } else if (accesses > of_thread * kWarp) {
    const int64_t warpgroups = ceil_div(accesses, of_thread * kThreads);
    t.ctas = ctas > 0 ? ctas : ctas_for(warpgroups, warpgroups_of_cta, limits.wide > 1);
    t.warps = RowTile::kWarps * static_cast<int>(ceil_div(warpgroups, t.ctas));
  }
  if (!t.waits())
    t.vectors = static_cast<int>(t.is_in_pieces ? std::min(of_thread, kMostAccessesOfPiece)
                                                : ceil_div(accesses, int64_t{t.lanes} * t.warps * t.ctas));
  if (!t.is_shared())
    t.rows_of_thread = std::clamp(static_cast<int>(std::bit_floor(static_cast<unsigned>(
                                      std::min(values, kValuesOfNarrow) / (t.vector * t.vectors)))),
                                  1, limits.rows_of_thread);
  t.at_once = std::max(1, threads_at_once / (t.warpgroups() * RegisterLayout::kThreads));
  return t;
}

}  // namespace ptxbuilder::kernels
