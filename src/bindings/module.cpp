// SPDX-License-Identifier: Apache-2.0
// The table of contents of flightshmem._core.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace flightshmem::bindings {
void bind_transport(nb::module_& m);
void bind_heap(nb::module_& m);
void bind_catalog(nb::module_& m);
void bind_exchange(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_flight(nb::module_& m);
}  // namespace flightshmem::bindings

NB_MODULE(_core, m) {
  m.doc() = "C++ core of FlightSHMEM: transport, heap, catalog, exchange, kernels, Flight server";
#ifdef NDEBUG
  // Objects that a user's globals still hold when Python exits are no leak of ours.
  nb::set_leak_warnings(false);
#endif
  using namespace flightshmem::bindings;
  bind_transport(m);
  bind_heap(m);
  bind_catalog(m);
  bind_exchange(m);
  bind_kernels(m);
  bind_flight(m);
}
