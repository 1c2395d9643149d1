// A program with two ranges, one in the other.
#include <cstdio>

#include "runtime/nvtx.h"

int main() {
  using ptxbuilder::runtime::NvtxRange;
  const NvtxRange outer("outer");
  { const NvtxRange inner("inner"); }
  std::puts(NvtxRange::is_on() ? "on" : "off");
}
