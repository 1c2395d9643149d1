#include "kernels/c/report.h"

#include <fmt/format.h>

#include <new>
#include <string>

#include "kernels/c/grown.h"
#include "ptxbuilder/log.h"
#include "runtime/device.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::c {
namespace {

thread_local std::string last_error;

int status_of_kind(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::refused:
      return PTXB_INVALID_ARGUMENT;
    case Error::Kind::unavailable:
      return PTXB_ERROR;
    case Error::Kind::out_of_memory:
      return PTXB_OUT_OF_MEMORY;
    case Error::Kind::device:
      return PTXB_DEVICE;
    case Error::Kind::compile:
      return PTXB_COMPILE;
  }
  return PTXB_INTERNAL;
}

int keep(const char* words, int status) {
  last_error = words;
  return status;
}

}  // namespace

void refuse_size(const char* name, size_t given, size_t ours, size_t first, const char* init_name) {
  throw Error(
      fmt::format("the size of this {} is {} bytes, but it has {} in this library and had {} in the first "
                  "header: initialize it with {}, and build with the header of version {}",
                  name, given, ours, first, init_name, PTXB_VERSION));
}

void forget_error() noexcept { last_error.clear(); }

int keep_error() noexcept {
  try {
    try {
      throw;
    } catch (const runtime::TimeoutError& e) {
      return keep(e.what(), PTXB_TIMEOUT);
    } catch (const runtime::EmulatorError& e) {
      return keep(e.what(), PTXB_DEVICE);
    } catch (const Error& e) {
      return keep(e.what(), status_of_kind(e.kind()));
    } catch (const std::bad_alloc&) {
      return keep("out of memory", PTXB_OUT_OF_MEMORY);
    } catch (const std::exception& e) {
      return keep(e.what(), PTXB_INTERNAL);
    } catch (...) {
      return keep("an exception that is not a std::exception", PTXB_INTERNAL);
    }
  } catch (...) {  // there is not enough memory to copy the message
    last_error.clear();
    return PTXB_OUT_OF_MEMORY;
  }
}

}  // namespace ptxbuilder::c

using namespace ptxbuilder;

static_assert(static_cast<int>(LogLevel::warning) == PTXB_LOG_WARNING);

extern "C" {

const char* ptxb_error(void) { return c::last_error.c_str(); }

void ptxb_set_log(void (*log)(int level, const char* text, void* user), void* user) {
  if (log)
    log_to(
        [=](LogLevel level, const std::string& text) { log(static_cast<int>(level), text.c_str(), user); });
  else
    log_to({});
}

}  // extern "C"
