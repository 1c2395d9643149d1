// A program with two nested ranges.
#include <cstdio>

#include "runtime/nvtx.h"

int main() {
  using ptxbuilder::runtime::NvtxRange;
  const NvtxRange outer("outer");
  { const NvtxRange inner("inner"); }
  std::puts(NvtxRange::is_on() ? "on" : "off");
}
