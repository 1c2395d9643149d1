// Finds the mnemonic of the manual that is most similar to an unknown mnemonic.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder::isa {

struct Nearest {
  std::string mnemonic;  // empty if no mnemonic begins with the same word
  std::string
      differs;  // ".parity is left out", ".gpu and .acquire are swapped", ".f16 is given instead of .f32"
  // True if only the order of words differs, and not the order of types: the order of a conversion's types
  // determines its direction. ptxas accepts most words in any order.
  bool has_same_words = false;
};
// Words that only one mnemonic has count most, then the order of words, then the length of the common
// beginning.
Nearest nearest(std::string_view mnemonic);

}  // namespace ptxbuilder::isa
