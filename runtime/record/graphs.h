// Tracks the graphs that a program launches. A graph with wanted kernels is launched part by part, so that
// the memory before and after each wanted kernel can be recorded.
#pragma once

#include <map>
#include <vector>

#include "runtime/driver.h"
#include "runtime/record/recorder.h"

namespace ptxbuilder::runtime::record {

// The driver's functions for graphs. If the driver lacks one of them, graphs are reported but not recorded.
struct GraphCalls {
  cu::Status (*clone)(cu::Graph*, cu::Graph) = nullptr;
  cu::Status (*destroy)(cu::Graph) = nullptr;
  cu::Status (*nodes)(cu::Graph, cu::GraphNode*, size_t*) = nullptr;
  cu::Status (*edges)(cu::Graph, cu::GraphNode*, cu::GraphNode*, void*, size_t*) = nullptr;
  cu::Status (*type)(cu::GraphNode, cu::GraphNodeType*) = nullptr;
  cu::Status (*kernel)(cu::GraphNode, cu::KernelNode*) = nullptr;
  cu::Status (*set_kernel)(cu::GraphNode, const cu::KernelNode*) = nullptr;
  cu::Status (*attribute)(cu::GraphNode, cu::LaunchAttributeId, cu::LaunchAttributeValue*) = nullptr;
  cu::Status (*find)(cu::GraphNode*, cu::GraphNode, cu::Graph) = nullptr;
  cu::Status (*destroy_node)(cu::GraphNode) = nullptr;
  cu::Status (*instantiate)(cu::GraphExec*, cu::Graph, unsigned long long) = nullptr;
  cu::Status (*destroy_exec)(cu::GraphExec) = nullptr;
};

class Graphs {
 public:
  Graphs(Recorder& recorder, GraphCalls driver) : recorder_(recorder), driver_(driver) {}

  void instantiated(cu::GraphExec exec, cu::Graph graph);  // also called after an update from `graph`
  void kernel_set(cu::GraphExec exec, cu::GraphNode node, const cu::KernelNode* kernel);
  void changed(cu::GraphExec exec);  // called for changes whose effect is not known
  void destroyed(cu::GraphExec exec);

  // Launches the graph, as a whole or in parts, through `call`, which may be the variant for the thread's
  // default stream.
  using Call = cu::Status (*)(cu::GraphExec, cu::Stream);
  cu::Status launch(cu::GraphExec exec, cu::Stream stream, Call call);

 private:
  struct Part;

  std::vector<cu::GraphNode> ordered(cu::Graph graph) const;
  std::vector<Part> parts_of(cu::Graph graph) const;
  void make(cu::Graph graph, const std::vector<cu::GraphNode>& all, Part& part) const;

  Recorder& recorder_;
  GraphCalls driver_;
  // Copies of the graphs that were instantiated, because the program may destroy its own graphs. A copy is
  // null if the graph is not known.
  std::map<cu::GraphExec, cu::Graph> kept_;
};

}  // namespace ptxbuilder::runtime::record
