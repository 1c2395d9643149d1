// Finds for a mnemonic that the manual does not have the one that is most like it.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder::isa {

struct Nearest {
  std::string mnemonic;  // empty where none begins with the same word
  std::string
      differs;  // ".parity is left out", ".gpu and .acquire are swapped", ".f16 stands where it has .f32"
  // Tells whether only the order of the words differs, and not that of the types: a conversion's say from
  // what to what. ptxas takes most words in any order.
  bool has_same_words = false;
};
// Words that neither has count most, then their order, then how much of the beginning is the same.
Nearest nearest(std::string_view mnemonic);

}  // namespace ptxbuilder::isa
