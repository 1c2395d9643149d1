#include "runtime/record/graphs.h"

#include <algorithm>
#include <set>

#include "ptxbuilder/error.h"

namespace ptxbuilder::runtime::record {
namespace {

constexpr const char* a_graph = "a graph";

void must(cu::Status status, const char* what) {
  if (status != cu::Status::success) throw Error(std::string("its launches are not recorded: ") + what);
}

Handle function_of(const cu::KernelNode& node) {
  return node.function ? static_cast<Handle>(node.function) : node.kernel;
}

}  // namespace

// Consecutive nodes in a possible order of execution: either one wanted kernel, or any number of other nodes.
struct Graphs::Part {
  std::vector<cu::GraphNode> nodes;
  bool is_wanted = false;
  size_t kernels = 0;
  cu::Graph graph = nullptr;
  cu::GraphExec exec = nullptr;
};

void Graphs::instantiated(cu::GraphExec exec, cu::Graph graph) {
  destroyed(exec);
  cu::Graph copy = nullptr;
  const bool is_able = driver_.clone && driver_.edges && driver_.kernel;
  if (is_able && driver_.clone(&copy, graph) != cu::Status::success) copy = nullptr;
  kept_[exec] = copy;
}

void Graphs::changed(cu::GraphExec exec) {
  destroyed(exec);
  kept_[exec] = nullptr;
}

void Graphs::destroyed(cu::GraphExec exec) {
  const auto at = kept_.find(exec);
  if (at == kept_.end()) return;
  if (at->second) driver_.destroy(at->second);
  kept_.erase(at);
}

void Graphs::kernel_set(cu::GraphExec exec, cu::GraphNode node, const cu::KernelNode* kernel) {
  const auto at = kept_.find(exec);
  cu::GraphNode own = nullptr;
  if (at == kept_.end() || !at->second || driver_.find(&own, node, at->second) != cu::Status::success ||
      driver_.set_kernel(own, kernel) != cu::Status::success)
    changed(exec);
}

// Returns the nodes in an order in which each node follows the nodes for which it waits.
std::vector<cu::GraphNode> Graphs::ordered(cu::Graph graph) const {
  size_t count = 0, edges = 0;
  must(driver_.nodes(graph, nullptr, &count), "the driver does not list its nodes");
  std::vector<cu::GraphNode> nodes(count), order;
  must(driver_.nodes(graph, nodes.data(), &count), "the driver does not list its nodes");
  must(driver_.edges(graph, nullptr, nullptr, nullptr, &edges), "the driver does not list its edges");
  constexpr size_t bytes_of_data = 8;  // size of an edge's data
  std::vector<cu::GraphNode> from(edges), to(edges);
  std::vector<std::byte> data(bytes_of_data * edges);
  if (edges > 0)
    must(driver_.edges(graph, from.data(), to.data(), data.data(), &edges),
         "the driver does not list its edges");
  std::map<cu::GraphNode, size_t> ahead;
  std::multimap<cu::GraphNode, cu::GraphNode> behind;
  for (size_t i = 0; i < edges; ++i) {
    ++ahead[to[i]];
    behind.emplace(from[i], to[i]);
  }
  for (const cu::GraphNode node : nodes)
    if (!ahead.contains(node)) order.push_back(node);
  for (size_t i = 0; i < order.size(); ++i)
    for (auto [at, end] = behind.equal_range(order[i]); at != end; ++at)
      if (--ahead[at->second] == 0) order.push_back(at->second);
  return order;
}

std::vector<Graphs::Part> Graphs::parts_of(cu::Graph graph) const {
  std::vector<Part> parts;
  for (const cu::GraphNode node : ordered(graph)) {
    cu::GraphNodeType type{};
    must(driver_.type(node, &type), "the driver does not report the type of a node");
    cu::KernelNode kernel{};
    const bool is_kernel = type == cu::GraphNodeType::kernel;
    if (is_kernel) must(driver_.kernel(node, &kernel), "the driver does not report the launch of a node");
    if (type == cu::GraphNodeType::graph)
      recorder_.note(a_graph, "launches of a graph within another graph are not recorded");
    const bool is_wanted = is_kernel && recorder_.wants(function_of(kernel));
    if (parts.empty() || is_wanted || parts.back().is_wanted)
      parts.push_back({.nodes = {}, .is_wanted = is_wanted});
    parts.back().nodes.push_back(node);
    parts.back().kernels += is_kernel;
  }
  return parts;
}

// Creates the graph of a part: a copy of the whole graph from which all other nodes are removed.
void Graphs::make(cu::Graph graph, const std::vector<cu::GraphNode>& all, Part& part) const {
  must(driver_.clone(&part.graph, graph), "the driver cannot copy it");
  const std::set<cu::GraphNode> own(part.nodes.begin(), part.nodes.end());
  for (const cu::GraphNode node : all) {
    if (own.contains(node)) continue;
    cu::GraphNode other = nullptr;
    must(driver_.find(&other, node, part.graph), "the driver cannot find a node in its copy");
    must(driver_.destroy_node(other), "the driver cannot remove a node from its copy");
  }
  must(driver_.instantiate(&part.exec, part.graph, 0), "the driver cannot prepare a part of it");
}

cu::Status Graphs::launch(cu::GraphExec exec, cu::Stream stream, Call call) {
  if (recorder_.is_capturing(stream)) return call(exec, stream);
  std::vector<Part> parts;
  const auto release = [&] {
    for (const Part& part : parts) {
      if (part.exec) driver_.destroy_exec(part.exec);
      if (part.graph) driver_.destroy(part.graph);
    }
  };
  try {
    const auto at = kept_.find(exec);
    if (at == kept_.end() || !at->second)
      throw Error(
          "its launches are not recorded: it allocates memory, or was made or changed by calls that are not "
          "tracked, or the driver is older than CUDA 12.3");
    parts = parts_of(at->second);
    if (std::ranges::none_of(parts, &Part::is_wanted)) {
      for (const Part& part : parts) recorder_.passed(part.kernels);
      return call(exec, stream);
    }
    std::vector<cu::GraphNode> all;
    for (const Part& part : parts) all.insert(all.end(), part.nodes.begin(), part.nodes.end());
    for (Part& part : parts) make(at->second, all, part);
  } catch (const std::exception& e) {
    recorder_.note(a_graph, e.what());
    release();
    return call(exec, stream);
  }
  cu::Status status = cu::Status::success;
  for (const Part& part : parts) {
    if (status != cu::Status::success) break;
    std::shared_ptr<Recorder::Launch> launch;
    if (part.is_wanted) {
      cu::KernelNode k{};
      cu::LaunchAttributeValue cluster{}, cooperative{};
      driver_.kernel(part.nodes[0], &k);
      driver_.attribute(part.nodes[0], cu::LaunchAttributeId::cluster_dimension, &cluster);
      driver_.attribute(part.nodes[0], cu::LaunchAttributeId::cooperative, &cooperative);
      LaunchShape shape{{k.grid_x, k.grid_y, k.grid_z},
                        {k.block_x, k.block_y, k.block_z},
                        {},
                        k.shared_bytes,
                        cooperative.cooperative != 0,
                        stream};
      if (cluster.cluster_dim.x)
        shape.cluster = {cluster.cluster_dim.x, cluster.cluster_dim.y, cluster.cluster_dim.z};
      launch = recorder_.begin(function_of(k), shape, k.parameters, packed(k.parameters, k.extra));
    } else {
      recorder_.passed(part.kernels);
    }
    status = call(part.exec, stream);
    if (launch) recorder_.end(*launch);
  }
  release();
  return status;
}

}  // namespace ptxbuilder::runtime::record
