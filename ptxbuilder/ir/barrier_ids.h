// Records the holders of the 16 thread barriers of a CTA (PTX ISA, bar).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

// Barrier 0 is reserved for the CTA's sync_threads(). Every other barrier belongs to the first holder that
// takes it, or to the author's instructions if they refer to it by number. After that, no other holder can
// take the barrier.
class BarrierIds {
 public:
  // Takes a free barrier for `holder`, and returns its number. If all barriers are taken, throws an Error
  // that lists the holders. The upper half is used first, because warpgroups use the barriers from 1 upwards.
  int take(const std::string& holder);

  // Takes barrier `id` for `holder`, which may hold it already. Throws Error if another holder has taken it.
  void take(int id, const std::string& holder);

  // Records the barriers to which the instructions in `text` refer by number. Throws Error if one of them is
  // held by another holder.
  void check_text(std::string_view text);

  // Turns check_text() off while this object exists, because the holder itself emits the instructions.
  class Holders {
   public:
    explicit Holders(BarrierIds& ids) : ids_(ids) { ids_.holders_ = true; }
    ~Holders() { ids_.holders_ = false; }
    Holders(const Holders&) = delete;

   private:
    BarrierIds& ids_;
  };

 private:
  struct Entry {
    std::string holder;  // empty if the barrier is free
    Where where;
  };
  void check_number(int id, std::string_view instruction);

  std::array<Entry, 16> entries_;
  bool holders_ = false;
};

}  // namespace ptxbuilder
