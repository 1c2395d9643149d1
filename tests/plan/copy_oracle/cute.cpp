// Prints what CuTe makes of copies: TMA boxes and the layouts after them, and the addresses that each thread
// gives to ldmatrix and stmatrix. Long lists are printed as their FNV-1a hash. Compiled against CUTLASS'
// headers; cute.txt is what it prints.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "../cute_kit.h"

alignas(1024) char memory[1 << 17];

struct Hash {
  uint64_t value = 0xcbf29ce484222325;
  void add(int64_t number) {
    for (int i = 0; i < 8; ++i) value = (value ^ ((number >> (8 * i)) & 0xff)) * 0x100000001b3;
  }
};

// tma dtype major swizzle mn k | boxes | their extents, innermost first | elements (mn, k), mn first, in
// memory
template <class Type, Major major, int swizzle, int mn, int k>
void print_boxes() {
  using Order = conditional_t<major == Major::K, Step<_1, _2>, Step<_2, _1>>;
  auto layout = tile_to_shape(atom<Type, major, swizzle>(), Shape<Int<mn>, Int<k>>{}, Order{});
  auto tensor = [] {
    auto pointer = make_gmem_ptr(static_cast<Type*>(nullptr));
    if constexpr (major == Major::K)
      return make_tensor(pointer, make_layout(make_shape(4096, 4096), make_stride(4096, Int<1>{})));
    else
      return make_tensor(pointer, make_layout(make_shape(4096, 4096), make_stride(Int<1>{}, 4096)));
  }();
  auto tile = make_identity_layout(shape(tensor)).compose(make_shape(Int<mn>{}, Int<k>{}));
  auto basis = detail::construct_tma_gbasis<Type>(tensor, get_nonswizzle_portion(layout), tile);
  Type* base = reinterpret_cast<Type*>(memory);
  auto lies = make_tensor(make_smem_ptr(base), layout);
  Hash hash;
  for (int j = 0; j < k; ++j)
    for (int i = 0; i < mn; ++i) hash.add(&lies(i, j) - base);
  std::printf("tma %s %s %d %d %d | %d |", kName<Type>, major == Major::K ? "k" : "mn", swizzle, mn, k,
              int(size(layout)) / int(size(basis)));
  for_each(make_seq<decltype(rank(basis))::value>{}, [&](auto i) {
    if (size<i>(basis) > 1 || i == 0) std::printf(" %d", int(size<i>(basis)));
  });
  std::printf(" | %016llx\n", static_cast<unsigned long long>(hash.value));
}

// name dtype swizzle rows cols | threads accesses | bytes, thread after thread | those of thread 37
template <class Type, class Tensor>
void print_addresses(const char* name, int swizzle, int rows, int cols, int threads, const Type* base,
                     const std::vector<Tensor>& tensors) {
  Hash hash;
  const int elements = 16 / sizeof(Type), accesses = size(tensors[0]) / elements;
  auto address = [&](int thread, int access) {
    return int(reinterpret_cast<const char*>(&tensors[thread](access * elements)) -
               reinterpret_cast<const char*>(base));
  };
  for (int t = 0; t < threads; ++t)
    for (int a = 0; a < accesses; ++a) hash.add(address(t, a));
  std::printf("%s %s %d %d %d | %d %d | %016llx |", name, kName<Type>, swizzle, rows, cols, threads, accesses,
              static_cast<unsigned long long>(hash.value));
  for (int a = 0; a < accesses; ++a) std::printf(" %d", address(37, a));
  std::printf("\n");
}

template <class Copy, class Layout, class Type>
auto sources(Copy const& copy, Layout const& layout, Type* memory, int threads) {
  auto tensor = make_tensor(make_smem_ptr(memory), layout);
  std::vector<decltype(copy.get_slice(0).partition_S(tensor))> all;
  for (int t = 0; t < threads; ++t) all.push_back(copy.get_slice(t).partition_S(tensor));
  return all;
}

template <class Copy, class Layout, class Type>
auto destinations(Copy const& copy, Layout const& layout, Type* memory, int threads) {
  auto tensor = make_tensor(make_smem_ptr(memory), layout);
  std::vector<decltype(copy.get_slice(0).partition_D(tensor))> all;
  for (int t = 0; t < threads; ++t) all.push_back(copy.get_slice(t).partition_D(tensor));
  return all;
}

// A of mma.sync.m16n8k16 by 2 x 2 warps, 64 rows.
template <class Type, class Mma, int swizzle, int cols>
void print_ldmatrix() {
  auto mma = make_tiled_mma(Mma{}, Layout<Shape<_2, _2, _1>>{});
  auto layout = tile_to_shape(atom<Type, Major::K, swizzle>(), Shape<_64, Int<cols>>{}, Step<_1, _2>{});
  auto copy = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, Type>{}, mma);
  Type* base = reinterpret_cast<Type*>(memory);
  print_addresses<Type>("ldmatrix", swizzle, 64, cols, 128, base, sources(copy, layout, base, 128));
}

// The accumulators of wgmma, 64 rows.
template <class Type, int swizzle, int cols>
void print_stmatrix() {
  auto op =
      SM90::GMMA::ss_op_selector<half_t, half_t, float, Shape<_64, Int<cols>, _16>, Major::K, Major::K>();
  auto mma = make_tiled_mma(op);
  auto layout = tile_to_shape(atom<Type, Major::K, swizzle>(), Shape<_64, Int<cols>>{}, Step<_1, _2>{});
  auto copy = make_tiled_copy_C(Copy_Atom<SM90_U32x4_STSM_N, Type>{}, mma);
  Type* base = reinterpret_cast<Type*>(memory);
  print_addresses<Type>("stmatrix", swizzle, 64, cols, 128, base, destinations(copy, layout, base, 128));
}

template <class Type, Major major, int swizzle>
void print_tiles() {
  constexpr int span = swizzle / sizeof(Type);
  if constexpr (major == Major::K) {
    print_boxes<Type, major, swizzle, 64, span>();
    print_boxes<Type, major, swizzle, 128, span>();
    print_boxes<Type, major, swizzle, 256, 2 * span>();
    print_boxes<Type, major, swizzle, 128, 4 * span>();
  } else {
    print_boxes<Type, major, swizzle, span, 64>();
    print_boxes<Type, major, swizzle, 2 * span, 64>();
    print_boxes<Type, major, swizzle, 4 * span, 128>();
  }
}

template <class Type>
void print_copies() {
  print_tiles<Type, Major::K, 32>(), print_tiles<Type, Major::K, 64>(), print_tiles<Type, Major::K, 128>();
  if constexpr (sizeof(Type) == 2)
    print_tiles<Type, Major::MN, 32>(), print_tiles<Type, Major::MN, 64>(),
        print_tiles<Type, Major::MN, 128>();
}

int main() {
  print_copies<half_t>();
  print_copies<bfloat16_t>();
  print_copies<float>();
  print_copies<float_e4m3_t>();
  print_ldmatrix<half_t, SM80_16x8x16_F32F16F16F32_TN, 32, 16>();
  print_ldmatrix<half_t, SM80_16x8x16_F32F16F16F32_TN, 64, 32>();
  print_ldmatrix<bfloat16_t, SM80_16x8x16_F32BF16BF16F32_TN, 128, 64>();
  print_ldmatrix<bfloat16_t, SM80_16x8x16_F32BF16BF16F32_TN, 128, 128>();
  print_stmatrix<half_t, 32, 16>();
  print_stmatrix<half_t, 64, 32>();
  print_stmatrix<bfloat16_t, 128, 64>();
  print_stmatrix<bfloat16_t, 128, 128>();
  print_stmatrix<half_t, 128, 256>();
}
