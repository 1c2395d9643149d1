#include "driver_linker.h"

#include <fmt/format.h>

#include "runtime/cuda_context.h"

namespace ptxbuilder::runtime {
namespace {

// The driver's linker, which also owns the resulting cubin.
class Linker {
 public:
  Linker(const cu::Driver& driver, JitLog& log) : driver_(driver), log_(log) {
    driver_.link_create(log.count(), log.options(), log.values(), &state_);
  }
  ~Linker() { (void)driver_.link_destroy.status(state_); }
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  void add(const std::string& ptx) {
    // The driver reads the text including its terminating NUL.
    expect(driver_.link_add_data.status(state_, cu::JitInput::ptx, const_cast<char*>(ptx.c_str()),
                                        ptx.size() + 1, "ptx", 0, nullptr, nullptr),
           "cuLinkAddData");
  }

  std::string complete() {
    void* cubin = nullptr;
    size_t bytes = 0;
    expect(driver_.link_complete.status(state_, &cubin, &bytes), "cuLinkComplete");
    return std::string(static_cast<const char*>(cubin), bytes);
  }

 private:
  void expect(cu::Status status, const char* call) {
    if (status == cu::Status::success) return;
    throw Error(fmt::format("the driver refused the PTX: {} failed: {}\n{}", call,
                            driver_.loaded.describe(status), log_.errors()));
  }

  const cu::Driver& driver_;
  JitLog& log_;
  cu::LinkState state_ = nullptr;
};

}  // namespace

JitResult assemble_with_driver(const std::string& ptx, const std::string& target,
                               const std::string& library) {
  CudaContext context(target, library);
  const CudaContext::Scope scope(context);
  const RelaxedCapture any_capture(context.driver());
  JitLog log;
  Linker linker(context.driver(), log);
  linker.add(ptx);
  std::string cubin = linker.complete();
  return {std::move(cubin), log.information()};
}

}  // namespace ptxbuilder::runtime
