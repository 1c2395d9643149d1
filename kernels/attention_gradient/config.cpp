#include "kernels/attention_gradient/config.h"

#include <fmt/format.h>

#include "kernels/attention_gradient/fragments.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {

std::string text(const AttentionGradientTile& t) {
  const std::string gradients = t.gradient_stages == t.stages ? "" : fmt::format("_g{}", t.gradient_stages);
  return fmt::format("{}x{}_{}{}{}{}{}", t.bm, t.bn(), t.stages, gradients,
                     t.ctas > 1 ? fmt::format("_c{}", t.ctas) : "", t.heads_first ? "_h" : "",
                     t.overlaps ? "" : "_nopdl");
}

int tile_bytes(const AttentionGradientOperation& o, const AttentionGradientTile& t) {
  const int element = size_of(o.type), number = size_of(DType::f32), two = 2;
  const GradientFragments sums(o, t);
  return t.bn() * (o.depth + o.value_depth) * element               // K and V
         + t.stages * t.bm * (o.depth * element + two * number)     // Q, and numbers for each of its rows
         + t.gradient_stages * t.bm * o.value_depth * element       // dO
         + two * t.bn() * t.bm * element * (t.shares_keys ? 2 : 1)  // dS, and P
         + (adds_from_registers(o, t) ? 0 : t.kConsumers * sums.elements() / sums.pieces() * number);  // dQ
}

void check(const AttentionGradientOperation& o, const AttentionGradientTile& t, Where where) {
  const auto refuse = [&](const std::string& what) { throw Error(where, "attention_gradient: " + what); };
  if (o.type != DType::f16 && o.type != DType::bf16)
    refuse(fmt::format("the type of the tensors is {}, but must be f16 or bf16", name(o.type)));
  const AttentionGradientOperation known = gradient_operation(o.type, o.depth, o.value_depth);
  if (o.depth != known.depth || o.value_depth != known.value_depth)
    refuse(
        fmt::format("Q has {} columns and V {}, but Q must have 64, 128, 192 or 256, and V the same number, "
                    "or 128 if Q has more",
                    o.depth, o.value_depth));
  const AttentionGradientTile its = gradient_tile(o);
  const bool is_known = t.bm == its.bm || (o.depth == 128 && (t.bm == 64 || t.bm == 80));
  if (!is_known || t.shares_keys != its.shares_keys)
    refuse(fmt::format("the tile has {} queries and {} keys with depth {}, but must have {} and {}", t.bm,
                       t.bn(), o.depth, its.bm, its.bn()));
  for (const int stages : {t.stages, t.gradient_stages})
    if (stages < 1) refuse(fmt::format("the number of stages is {}, but must be at least 1", stages));
  if (t.ctas != 1 && t.ctas != 2 && t.ctas != 4)
    refuse(fmt::format("ctas is {}, but must be 1, 2 or 4", t.ctas));
  if (t.ctas > 1 && (t.shares_keys || o.packed || o.depth != o.value_depth))
    refuse(
        fmt::format("ctas is {} with {} columns{}, but CTAs divide only groups of heads of 64 or 128 columns "
                    "that are not of packed sequences",
                    t.ctas, o.depth, o.packed ? " of packed sequences" : ""));
  if (t.heads_first && o.packed)
    refuse(
        "heads_first is not possible with packed sequences, because they differ in their numbers of blocks");
  if (const int bytes = tile_bytes(o, t), most = hopper::shared_bytes - 1024; bytes > most)
    refuse(
        fmt::format("the tiles need {} bytes of shared memory, but there are {}: take fewer stages than {}",
                    bytes, most, t.stages));
}

}  // namespace ptxbuilder::kernels
