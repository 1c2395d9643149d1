// Graphs of the emulated libcuda: launches, copies and fills in the order in which they were added.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/driver.h"

namespace ptxbuilder::runtime::cu {

// A launch and the bytes of its parameters.
struct KeptLaunch {
  void* function = nullptr;
  LaunchConfig config{};
  std::vector<LaunchAttribute> attributes;
  std::vector<std::vector<std::byte>> parameters;

  std::vector<void*> pointers() {
    std::vector<void*> all;
    for (auto& p : parameters) all.push_back(p.data());
    return all;
  }
};

}  // namespace ptxbuilder::runtime::cu

// The objects to which the driver's handles point.
struct ptxbuilder::runtime::cu::GraphNodeHandle {
  GraphNodeType type;
  std::function<Status()> operation;  // for a node that is not a launch
  KeptLaunch launch;
  std::vector<GraphNodeHandle*> behind;  // the nodes of the same graph that must run before this one
  const GraphNodeHandle* original = nullptr;
  GraphHandle* graph = nullptr;
  std::vector<void*> told = {};  // pointers to the parameters, for callers that request them
};

struct ptxbuilder::runtime::cu::GraphHandle {
  std::vector<std::unique_ptr<GraphNodeHandle>> nodes;

  GraphNodeHandle& add(GraphNodeHandle node) {
    node.graph = this;
    return *nodes.emplace_back(std::make_unique<GraphNodeHandle>(std::move(node)));
  }
  // Adds a captured node, which follows the node before it.
  void capture(GraphNodeHandle node) {
    if (!nodes.empty()) node.behind = {nodes.back().get()};
    add(std::move(node));
  }
  GraphNodeHandle* copy_of(const GraphNodeHandle* original) const {
    const auto at = std::ranges::find(nodes, original, [](const auto& node) { return node->original; });
    return at == nodes.end() ? nullptr : at->get();
  }
  std::unique_ptr<GraphHandle> copy() const {
    auto made = std::make_unique<GraphHandle>();
    for (const auto& node : nodes) {
      GraphNodeHandle& own = made->add({node->type, node->operation, node->launch, {}, node.get()});
      for (const GraphNodeHandle* ahead : node->behind) own.behind.push_back(made->copy_of(ahead));
    }
    return made;
  }
  void remove(GraphNodeHandle* node) {
    for (const auto& other : nodes) std::erase(other->behind, node);
    std::erase_if(nodes, [&](const auto& own) { return own.get() == node; });
  }
};

struct ptxbuilder::runtime::cu::GraphExecHandle {
  std::unique_ptr<GraphHandle> graph;
};
