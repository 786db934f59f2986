#include "sim/tune/pareto_front.h"

namespace zenflow::sim {

void ParetoFront::add(const FrontPoint& point) {
  if (covers(point)) return;
  std::erase_if(points_, [&](const FrontPoint& one) { return point.covers(one); });
  points_.push_back(point);
}

std::vector<std::size_t> not_covered(const std::vector<FrontPoint>& points) {
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < points.size(); ++i) {
    bool beaten = false;
    for (std::size_t other = 0; other < points.size() && !beaten; ++other) {
      beaten = other != i && points[other].covers(points[i]) &&
               (!points[i].covers(points[other]) || other < i);
    }
    if (!beaten) front.push_back(i);
  }
  return front;
}

}  // namespace zenflow::sim
