// Checks that calls of all ranks are refused after one change makes them wrong, and are accepted again after
// another change.
#pragma once

#include <functional>

#include "error_kit.h"

namespace ptxbuilder::test {

template <class Arguments>
class Refusals {
 public:
  using Change = std::function<void(Arguments&)>;

  // `call` makes the calls of all ranks, each with its arguments changed, and waits for them.
  explicit Refusals(std::function<void(const Change&)> call) : call_(std::move(call)) {}

  void operator()(const Change& change, const char* why, const Change& twin) const {
    CHECK_ERROR(call_(change), why);
    call_(twin);
  }

 private:
  std::function<void(const Change&)> call_;
};

}  // namespace ptxbuilder::test
