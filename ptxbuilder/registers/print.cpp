#include "ptxbuilder/registers/print.h"

#include <fmt/format.h>

#include "ptxbuilder/registers/place.h"
#include "ptxbuilder/report_format.h"

namespace ptxbuilder::detail {

void print_tile(const MessageText& text, char type, const RegisterLayout& layout,
                const std::function<u32(int)>& bits) {
  using namespace report_format;
  const AtLine line(text.where);
  if (layout.rows() > static_cast<int>(kMostTileRows) || layout.cols() > static_cast<int>(kMostTileCols))
    throw Error(
        fmt::format("print: the tile has {} x {} elements, but at most {} rows and {} columns can be printed",
                    layout.rows(), layout.cols(), kMostTileRows, kMostTileCols));
  if (!prints()) return;
  once_for_each_element(layout, [&] {
    const Places places(layout);
    print_elements(text, type, layout.values(), [&](int i) {
      return u64(kIsElement) | u64(places.row(i)) << 48 | u64(places.col(i)) << 32 | u64(bits(i));
    });
  });
}

}  // namespace ptxbuilder::detail
