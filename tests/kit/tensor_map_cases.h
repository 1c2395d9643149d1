// The rules of tensor maps. Each entry is a change that violates a rule, and the nearest change that does
// not.
#pragma once

#include <vector>

#include "runtime/device.h"

struct TensorMapCase {
  using Change = void (*)(ptxbuilder::runtime::TensorMapArguments&);

  const char* rule;
  Change breaks, keeps;
  const char* text;            // text of the error, after "tensor map: "
  bool driver_refuses = true;  // false for the library's own rules
};

// Returns a legal map, from which every case starts: 64 x 128 boxes of a bf16 tensor of 1024 x 512.
inline ptxbuilder::runtime::TensorMapArguments legal_tensor_map() {
  using namespace ptxbuilder;
  return {.recipe = {.dtype = DType::bf16,
                     .box = {64, 128},
                     .element_strides = {1, 1},
                     .interleave = Interleave::none,
                     .swizzle = Swizzle::b128,
                     .l2_promotion = L2Promotion::b128,
                     .oob_fill = OobFill::zero},
          .address = 0x7f0000000000,
          .shape = {1024, 512},
          .strides = {2048}};
}

// Turns a map into a legal interleaved map: a tensor NC/8HWC8 of bf16.
inline void interleave(ptxbuilder::runtime::TensorMapArguments& a, ptxbuilder::Interleave by) {
  a.recipe.box = {8, 4, 4};
  a.recipe.element_strides = {1, 1, 1};
  a.recipe.interleave = by;
  a.recipe.swizzle = by == ptxbuilder::Interleave::b32 ? ptxbuilder::Swizzle::b32 : ptxbuilder::Swizzle::none;
  if (by == ptxbuilder::Interleave::b32) a.recipe.box[0] = 16;
  a.shape = {64, 32, 16};
  a.strides = {32, 1024};
}

inline const std::vector<TensorMapCase>& tensor_map_cases() {
  using namespace ptxbuilder;
  using A = runtime::TensorMapArguments;
  static const std::vector<TensorMapCase> cases = {
      {"rank at least 1",
       [](A& a) { a.recipe.box = {}, a.recipe.element_strides = {}, a.shape = {}, a.strides = {}; },
       [](A& a) { a.recipe.box = {64}, a.recipe.element_strides = {1}, a.shape = {1024}, a.strides = {}; },
       "the rank is 0, but must be 1 to 5"},
      {"rank at most 5",
       [](A& a) {
         a.recipe.box = {64, 1, 1, 1, 1, 1}, a.recipe.element_strides = {1, 1, 1, 1, 1, 1};
         a.shape = {1024, 2, 2, 2, 2, 2}, a.strides = {2048, 4096, 8192, 16384, 32768};
       },
       [](A& a) {
         a.recipe.box = {64, 1, 1, 1, 1}, a.recipe.element_strides = {1, 1, 1, 1, 1};
         a.shape = {1024, 2, 2, 2, 2}, a.strides = {2048, 4096, 8192, 16384};
       },
       "the rank is 6, but must be 1 to 5"},
      {"interleave has rank 3 or more",
       [](A& a) { a.recipe.interleave = Interleave::b16, a.recipe.swizzle = Swizzle::none; },
       [](A& a) { interleave(a, Interleave::b16); },
       "the rank is 2 with interleave 16, but an interleaved map must have rank 3 to 5"},
      {"interleave 32 has swizzle 32",
       [](A& a) { interleave(a, Interleave::b32), a.recipe.swizzle = Swizzle::none; },
       [](A& a) { interleave(a, Interleave::b32); }, "interleave 32 needs swizzle 32, not none",
       false},  // a rule of the manual that driver 580 does not enforce
      {"one element stride for each dimension", [](A& a) { a.recipe.element_strides = {1}; }, [](A&) {},
       "1 element strides were given for a box of rank 2", false},
      {"the tensor's rank is the box's",
       [](A& a) {
         a.shape = {1024, 512, 3};
       },
       [](A&) {}, "the tensor has rank 3, the box has rank 2", false},
      {"one stride less than the rank",
       [](A& a) {
         a.strides = {2048, 2048};
       },
       [](A&) {}, "2 strides were given for rank 2; give 1", false},
      {"address aligned to 16", [](A& a) { a.address += 8; }, [](A& a) { a.address += 16; },
       "the address 0x7f0000000008 is not a multiple of 16 B; nearest: 0x7f0000000000"},
      {"address aligned to 32 where interleaved by 32",
       [](A& a) { interleave(a, Interleave::b32), a.address += 16; },
       [](A& a) { interleave(a, Interleave::b32), a.address += 32; },
       "the address 0x7f0000000010 is not a multiple of 32 B (interleave 32)"},
      {"shape at least 1", [](A& a) { a.shape[1] = 0; }, [](A& a) { a.shape[1] = 1; },
       "shape[1] = 0 is not in 1 to 2^32 elements; nearest: 1"},
      {"shape at most 2^32", [](A& a) { a.shape[1] = (1ull << 32) + 1; },
       [](A& a) { a.shape[1] = 1ull << 32; },
       "shape[1] = 4294967297 is not in 1 to 2^32 elements; nearest: 4294967296"},
      {"inner shape at most 2^32", [](A& a) { a.shape[0] = 1ull << 33, a.strides = {1ull << 34}; },
       [](A& a) { a.shape[0] = 1ull << 32, a.strides = {1ull << 33}; }, "shape[0] = 8589934592"},
      {"stride a multiple of 16", [](A& a) { a.strides = {2056}; }, [](A& a) { a.strides = {2064}; },
       "the stride of dimension 1, 2056 B, is not a multiple of 16 B; nearest: 2048 or 2064 B"},
      {"stride a multiple of 32 where interleaved by 32",
       [](A& a) {
         interleave(a, Interleave::b32), a.strides = {48, 1024};
       },
       [](A& a) {
         interleave(a, Interleave::b32), a.strides = {64, 2048};
       },
       "the stride of dimension 1, 48 B, is not a multiple of 32 B (interleave 32); nearest: 32 or 64 B"},
      {"stride below 2^40", [](A& a) { a.strides = {1ull << 40}; },
       [](A& a) { a.strides = {(1ull << 40) - 16}; },
       "the stride of dimension 1, 1099511627776 B, is not below 2^40 B; at most 1099511627760 B"},
      {"outer stride a multiple of 16",
       [](A& a) {
         a.recipe.box = {64, 8, 2}, a.recipe.element_strides = {1, 1, 1};
         a.shape = {1024, 512, 4}, a.strides = {2048, 1048584};
       },
       [](A& a) {
         a.recipe.box = {64, 8, 2}, a.recipe.element_strides = {1, 1, 1};
         a.shape = {1024, 512, 4}, a.strides = {2048, 1048576};
       },
       "the stride of dimension 2, 1048584 B, is not a multiple of 16 B"},
      {"rows do not overlap", [](A& a) { a.strides = {2032}; }, [](A& a) { a.strides = {2048}; },
       "the stride of dimension 1, 2032 B, is less than a row of 1024 x bf16 = 2048 B; at least 2048 B",
       false},
      {"box at least 1", [](A& a) { a.recipe.box[1] = 0; }, [](A& a) { a.recipe.box[1] = 1; },
       "box[1] = 0 is not in 1 to 256 elements; nearest: 1"},
      {"box at most 256", [](A& a) { a.recipe.box[1] = 257; }, [](A& a) { a.recipe.box[1] = 256; },
       "box[1] = 257 is not in 1 to 256 elements; nearest: 256"},
      {"inner box at most 256", [](A& a) { a.recipe.box[0] = 512, a.recipe.swizzle = Swizzle::none; },
       [](A& a) { a.recipe.box[0] = 256, a.recipe.swizzle = Swizzle::none; },
       "box[0] = 512 is not in 1 to 256"},
      {"inner box a multiple of 16 B", [](A& a) { a.recipe.box[0] = 60; }, [](A& a) { a.recipe.box[0] = 56; },
       "box[0] = 60 x bf16 = 120 B is not a multiple of 16 B; nearest: 56 or 64 elements"},
      {"inner box a multiple of 16 B, smallest", [](A& a) { a.recipe.box[0] = 4; },
       [](A& a) { a.recipe.box[0] = 8; },
       "box[0] = 4 x bf16 = 8 B is not a multiple of 16 B; nearest: 8 elements"},
      {"inner box in swizzle 128", [](A& a) { a.recipe.box[0] = 72; }, [](A& a) { a.recipe.box[0] = 64; },
       "box[0] = 72 x bf16 = 144 B exceeds the span of swizzle 128, 128 B; at most 64 elements"},
      {"inner box in swizzle 64", [](A& a) { a.recipe.box[0] = 40, a.recipe.swizzle = Swizzle::b64; },
       [](A& a) { a.recipe.box[0] = 32, a.recipe.swizzle = Swizzle::b64; },
       "box[0] = 40 x bf16 = 80 B exceeds the span of swizzle 64, 64 B; at most 32 elements"},
      {"inner box in swizzle 32", [](A& a) { a.recipe.box[0] = 24, a.recipe.swizzle = Swizzle::b32; },
       [](A& a) { a.recipe.box[0] = 16, a.recipe.swizzle = Swizzle::b32; },
       "box[0] = 24 x bf16 = 48 B exceeds the span of swizzle 32, 32 B; at most 16 elements"},
      {"element stride at least 1", [](A& a) { a.recipe.element_strides[1] = 0; },
       [](A& a) { a.recipe.element_strides[1] = 1; }, "element_strides[1] = 0 is not in 1 to 8; nearest: 1"},
      {"element stride at most 8", [](A& a) { a.recipe.element_strides[1] = 9; },
       [](A& a) { a.recipe.element_strides[1] = 8; }, "element_strides[1] = 9 is not in 1 to 8; nearest: 8"},
      {"no element stride in dimension 0", [](A& a) { a.recipe.element_strides[0] = 2; }, [](A&) {},
       "element_strides[0] = 2 would be ignored", false},
      {"nan for floats", [](A& a) { a.recipe.dtype = DType::u16, a.recipe.oob_fill = OobFill::nan; },
       [](A& a) { a.recipe.dtype = DType::f16, a.recipe.oob_fill = OobFill::nan; },
       "out-of-bounds fill nan is not possible for u16"},
      {"no nan for 8-bit floats, which travel as bytes",
       [](A& a) { a.recipe.dtype = DType::e4m3, a.recipe.oob_fill = OobFill::nan; },
       [](A& a) { a.recipe.dtype = DType::e4m3; }, "out-of-bounds fill nan is not possible for e4m3"},
  };
  return cases;
}
