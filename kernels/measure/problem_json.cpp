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

Json sizes(const AttentionProblem& p) {
  Json json = {{"batches", p.batches},
               {"queries", p.queries},
               {"keys", p.keys},
               {"heads", p.heads},
               {"key_heads", p.key_heads},
               {"depth", p.depth},
               {"value_depth", p.value_depth}};
  if (p.packed()) json["lengths"] = p.lengths;
  return json;
}
Json types(const AttentionProblem& p) {
  return {{"type", name(p.type)}, {"causal", p.causal}, {"left", p.left}, {"right", p.right}};
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
