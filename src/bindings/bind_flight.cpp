// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/status.h"
#include "flight/server.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

// Starting, stopping and dying may wait for gRPC's threads, and those may want the GIL (an
// extension type registered by Python code): so all three release it.
class PyFlightServer {
 public:
  explicit PyFlightServer(std::unique_ptr<FlightServer> server) : server_(std::move(server)) {}
  ~PyFlightServer() {
    nb::gil_scoped_release release;
    server_.reset();
  }

  static PyFlightServer* Start(std::shared_ptr<Catalog> catalog, std::string host, int port,
                               std::string token, int64_t max_message_bytes,
                               int64_t max_put_bytes) {
    const FlightOptions options{std::move(host), port, std::move(token), max_message_bytes,
                                max_put_bytes};
    auto server = [&] {
      nb::gil_scoped_release release;
      return FlightServer::Start(std::move(catalog), options);
    }();
    return new PyFlightServer(Check(std::move(server)));
  }

  int port() const { return server_->port(); }
  void SetLocations(std::vector<std::string> locations, bool gateway_only) {
    server_->SetLocations(std::move(locations), gateway_only);
  }
  void Stop(double grace_s) {
    const auto status = [&] {
      nb::gil_scoped_release release;
      return server_->Stop(grace_s);
    }();
    Check(status);
  }

 private:
  std::unique_ptr<FlightServer> server_;
};

}  // namespace

void bind_flight(nb::module_& m) {
  nb::class_<PyFlightServer>(m, "FlightServer")
      .def_static("start", &PyFlightServer::Start, nb::rv_policy::take_ownership,
                  nb::arg("catalog"), nb::arg("host"), nb::arg("port"), nb::arg("token"),
                  nb::arg("max_message_bytes"), nb::arg("max_put_bytes"))
      .def_prop_ro("port", &PyFlightServer::port)
      .def("set_locations", &PyFlightServer::SetLocations, nb::arg("locations"),
           nb::arg("gateway_only"))
      .def("stop", &PyFlightServer::Stop, nb::arg("grace_s"));
}

}  // namespace flightshmem::bindings
