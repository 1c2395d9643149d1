#include "kernels/measure/problem_json.h"

#include <nlohmann/json.hpp>

namespace ptxbuilder::bench {
namespace {

using Json = nlohmann::ordered_json;

Json sizes(const GemmProblem& p) { return {{"m", p.m}, {"n", p.n}, {"k", p.k}}; }
Json types(const GemmProblem& p) {
  return {{"a", name(p.a)},
          {"b", name(p.b)},
          {"d", name(p.d)},
          {"layout", p.layout()},
          {"fast_accumulation", p.fast_accumulation}};
}

}  // namespace

std::string size_json(const Problem& problem) {
  return std::visit([](const auto& p) { return sizes(p); }, problem).dump();
}
std::string type_json(const Problem& problem) {
  return std::visit([](const auto& p) { return types(p); }, problem).dump();
}
std::string problem_json(const Problem& problem) {
  Json json = Json::parse(size_json(problem));
  json.update(Json::parse(type_json(problem)));
  return json.dump();
}

}  // namespace ptxbuilder::bench
