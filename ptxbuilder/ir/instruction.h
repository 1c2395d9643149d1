// Offers PTX instructions as typed calls. The names are the mnemonics of the PTX manual, which `ptxb isa`
// lists. The C++ compiler checks the operands, as for the calls in typed_calls.h.
//
//   f32 y = instruction<"tanh.approx.f32">(x);
//   auto [low, high] = instruction<"ld.global.v2.f32">(address);
//   instruction<"st.global.b8">.when(lane == 0u)(address, byte);
//
// If several instructions have the same mnemonic, a word after a space distinguishes them:
//
//   u64 state = instruction<"mbarrier.arrive.shared::cta.b64 count">(bar, 2);
//
// `ptxb isa --find TEXT` lists such words, and `ptxb isa "KEY"` shows operands, minimum targets and an
// example. This header is separate from typed_calls.h because the compiler needs about 20 ms to look up each
// instruction.
#pragma once

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/isa/manual.h"

namespace ptxbuilder {

template <isa::Key key>
inline constexpr detail::CallOf<isa::instruction<key>()> instruction{};

}  // namespace ptxbuilder
