#include "runtime/interrupt.h"

#include <utility>

namespace ptxbuilder::runtime {
namespace {

thread_local std::function<bool()> asked;

}  // namespace

void interrupt_by(std::function<bool()> is_interrupted) { asked = std::move(is_interrupted); }

bool is_interrupted() { return asked && asked(); }

}  // namespace ptxbuilder::runtime
