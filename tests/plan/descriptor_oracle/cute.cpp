// Prints what CuTe makes of shared-memory matrices: descriptors, advances and counts, one line for each
// operand of a tiled product. Compiled against CUTLASS' headers; cute.txt is what it prints.
#include <cstdio>

#include "../cute_kit.h"

// dtype major swizzle order | side extent k | blocks along mn, along k | their descriptors
template <class Type, class Fragment>
void print_operand(Major major, int swizzle, bool mn_first, char side, int extent, int k,
                   Fragment const& fragment) {
  int blocks = size<1>(fragment), depth = size<2>(fragment);
  std::printf("%s %s %d %s %c %d %d %d %d", kName<Type>, major == Major::K ? "k" : "mn", swizzle,
              mn_first ? "mn" : "k", side, extent, k, blocks, depth);
  for (int i = 0; i < blocks; ++i)
    for (int j = 0; j < depth; ++j)
      std::printf(" %016llx",
                  static_cast<unsigned long long>((*(fragment.data() + fragment.layout()(0, i, j))).desc_));
  std::printf("\n");
}

template <class Type, Major major, int swizzle, bool mn_first, int m, int n, int k_bytes>
void print_tile() {
  using Sum = conditional_t<is_same_v<Type, int8_t> || is_same_v<Type, uint8_t>, int32_t, float>;
  constexpr int k = k_bytes / sizeof(Type);
  using Order = conditional_t<mn_first, Step<_1, _2>, Step<_2, _1>>;
  auto layout_a = tile_to_shape(atom<Type, major, swizzle>(), Shape<Int<m>, Int<k>>{}, Order{});
  auto layout_b = tile_to_shape(atom<Type, major, swizzle>(), Shape<Int<n>, Int<k>>{}, Order{});
  auto op = SM90::GMMA::ss_op_selector<Type, Type, Sum, Shape<Int<64>, Int<n>, Int<k>>, major, major>();
  auto mma = make_tiled_mma(op);
  auto a = make_tensor(make_smem_ptr(static_cast<Type*>(nullptr)), layout_a);
  auto b = make_tensor(make_smem_ptr(static_cast<Type*>(nullptr)), layout_b);
  auto thread = mma.get_slice(0);
  print_operand<Type>(major, swizzle, mn_first, 'a', m, k, thread.make_fragment_A(thread.partition_A(a)));
  print_operand<Type>(major, swizzle, mn_first, 'b', n, k, thread.make_fragment_B(thread.partition_B(b)));
}

template <class Type, Major major, int swizzle, bool mn_first>
void print_tiles() {
  print_tile<Type, major, swizzle, mn_first, 64, 256, 128>();
  print_tile<Type, major, swizzle, mn_first, 128, 64, 256>();
  print_tile<Type, major, swizzle, mn_first, 192, 128, 128>();
}

template <class Type, Major major>
void print_swizzles() {
  print_tiles<Type, major, 0, true>(), print_tiles<Type, major, 0, false>();
  print_tiles<Type, major, 32, true>(), print_tiles<Type, major, 32, false>();
  print_tiles<Type, major, 64, true>(), print_tiles<Type, major, 64, false>();
  print_tiles<Type, major, 128, true>(), print_tiles<Type, major, 128, false>();
}

// Types of one size have the same descriptors, so all tiles of one type for each size, and one of the others.
template <class Type, Major major>
void print_one() {
  print_tile<Type, major, 128, true, 128, 64, 256>();
}

int main() {
  print_swizzles<half_t, Major::K>();
  print_swizzles<half_t, Major::MN>();
  print_one<bfloat16_t, Major::K>();
  print_one<bfloat16_t, Major::MN>();
  print_swizzles<tfloat32_t, Major::K>();
  print_swizzles<float_e4m3_t, Major::K>();
  print_one<float_e5m2_t, Major::K>();
  print_one<int8_t, Major::K>();
  print_one<uint8_t, Major::K>();
}
