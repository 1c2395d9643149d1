// Prints register tiles. The host shows the tiles as matrices.
#pragma once

#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/check.h"

namespace ptxbuilder {

namespace detail {
void print_tile(const MessageText& text, char type, const RegisterLayout& layout,
                const std::function<u32(int)>& bits);
}

// Sends a tile to the host, which prints the tile's rows and columns under the title `text`. Emits nothing
// unless a ChecksScope was open when the kernel was constructed (ptxbuilder/tile/check.h). Each message in
// the scope's buffer holds six elements. Throws Error for more than 2^15 rows or 2^16 columns. Elements of 8
// bits must be converted first, for example with astype<f32>(x).
template <TileLike X>
requires NumberElement<ElementOf<X>> || std::same_as<ElementOf<X>, pred>
void print(detail::MessageText text, const X& tile) {
  using T = ElementOf<X>;
  const RegisterTile<T>& x = tile;
  const auto bits = [&](int i) {
    if constexpr (std::same_as<T, pred>)
      return select(x.value(i, text.where), u32(1), u32(0));
    else if constexpr (FloatElement<T>)
      return bit_cast<u32>(f32(x.value(i, text.where)));
    else
      return u32(x.value(i, text.where));
  };
  constexpr char type = std::same_as<T, pred>  ? 'p'
                        : FloatElement<T>      ? 'f'
                        : std::same_as<T, s32> ? 's'
                                               : 'u';
  detail::print_tile(text, type, x.layout(), bits);
}

}  // namespace ptxbuilder
