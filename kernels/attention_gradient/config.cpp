#include "kernels/attention_gradient/config.h"

#include <fmt/format.h>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {

std::string text(const AttentionGradientTile& t) {
  return fmt::format("{}x{}_{}{}", t.bm, t.bn(), t.stages, t.overlaps ? "" : "_nopdl");
}

int tile_bytes(const AttentionGradientOperation& o, const AttentionGradientTile& t) {
  const int element = size_of(o.type), number = size_of(DType::f32), two = 2;
  return two * t.bn() * o.depth * element  // K and V
         + two * t.stages * t.bm *
               (o.depth * element + number)  // Q and dO, and a number for each of their rows
         + two * t.bn() * t.bm * element     // dS
         + t.bm * o.depth * number;          // dQ
}

void check(const AttentionGradientOperation& o, const AttentionGradientTile& t, Where where) {
  const auto refuse = [&](const std::string& what) { throw Error(where, "attention_gradient: " + what); };
  if (o.type != DType::f16 && o.type != DType::bf16)
    refuse(fmt::format("tensors of {}; f16 or bf16", name(o.type)));
  if (o.depth != 64 && o.depth != 128) refuse(fmt::format("depth = {}; 64 or 128", o.depth));
  if (const int rows = gradient_rows(o.depth); t.bm != rows)
    refuse(fmt::format("bm = {} of depth {}; {}", t.bm, o.depth, rows));
  if (t.stages < 1) refuse(fmt::format("stages = {}; at least 1", t.stages));
  if (const int bytes = tile_bytes(o, t), most = hopper::shared_bytes - 1024; bytes > most)
    refuse(fmt::format("the tiles take {} bytes of shared memory, which has {}: take fewer stages than {}",
                       bytes, most, t.stages));
}

}  // namespace ptxbuilder::kernels
