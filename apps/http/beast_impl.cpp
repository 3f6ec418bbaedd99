// The non-template half of Boost.Asio and Boost.Beast, compiled once; see the definitions in CMakeLists.txt.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
