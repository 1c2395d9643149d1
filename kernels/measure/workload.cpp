#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

std::string size_text(const Problem& problem) {
  return std::visit([](const auto& p) { return size_text(p); }, problem);
}
std::string type_text(const Problem& problem) {
  return std::visit([](const auto& p) { return type_text(p); }, problem);
}
Axis axis_of(const Problem& problem) {
  return std::visit([](const auto& p) { return axis_of(p); }, problem);
}
double flops(const Problem& problem) {
  return std::visit([](const auto& p) { return p.flops(); }, problem);
}
std::vector<Matrix> inputs(const Problem& problem) {
  return std::visit([](const auto& p) { return p.inputs(); }, problem);
}
Matrix output(const Problem& problem) {
  return std::visit([](const auto& p) { return p.output(); }, problem);
}

int64_t bytes(const Problem& problem) {
  int64_t sum = output(problem).bytes();
  for (const Matrix& input : inputs(problem)) sum += input.bytes();
  return sum;
}

}  // namespace ptxbuilder::bench
