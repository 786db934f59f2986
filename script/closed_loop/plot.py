"""The plot of ./script/closed-loop: step time, S and, if it was tuned, k, window by window."""
from html import escape

WIDTH, LEFT, RIGHT = 860, 62, 20
TOP, TIME_HEIGHT, STAIRS_HEIGHT, GAP, FOOT = 30, 230, 100, 25, 35
BLUE, RED, GRAY, GREEN, VIOLET = "#1b6ca8", "#d1495b", "#999999", "#3a7d44", "#7a4fa0"


class Drawing:
    def __init__(self, height, steps):
        self.height, self.steps, self.out = height, steps, []

    def x(self, step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def box(self, x, y, width, height, color, opacity=1):
        self.out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                        f'fill="{color}" opacity="{opacity}"/>')

    def text(self, x, y, words, color="black", anchor="end"):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">'
                        f'{escape(words)}</text>')

    def line(self, points, color, width=1.5, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.out.append(f'<polyline points="{path}" fill="none" stroke="{color}" '
                        f'stroke-width="{width}"{dashes}/>')

    def axis(self, y):
        self.line([(LEFT, y), (WIDTH - RIGHT, y)], "black", 1)

    def svg(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" '
                f'viewBox="0 0 {WIDTH} {self.height}" font-family="sans-serif" font-size="12">')
        return "\n".join([head, *self.out, "</svg>"]) + "\n"


def best_label(best, with_ratio):
    ratio = f"k = {best['topk_ratio']:g}, " if with_ratio else ""
    return f"best fixed: {ratio}S = {best['update_interval']}, {best['step_time_ms']:.1f} ms"


def times(drawing, phases, windows, bottom, with_ratio):
    """Milliseconds a step, and the best fixed setting of each phase."""
    shown = sorted(w["step_time_ms"] for w in windows)[int(0.98 * (len(windows) - 1))]
    most = 1.15 * max(shown, max(p["best_fixed"]["step_time_ms"] for p in phases))

    def y(value):
        return bottom - (TIME_HEIGHT - 10) * min(value, most) / most

    drawing.axis(bottom)
    for tick in range(1, 5):
        drawing.text(LEFT - 6, y(most * tick / 4) + 4, f"{most * tick / 4:.0f}")
    drawing.text(LEFT, TOP - 8, "ms a step", BLUE, "start")
    for number, phase in enumerate(phases):
        steps = [drawing.steps * at / 3 for at in (number, number + 1)]
        ends = [drawing.x(step) for step in steps]
        level = y(phase["best_fixed"]["step_time_ms"])
        drawing.line([(ends[0], level), (ends[1], level)], GRAY, 1.5, "5 3")
        below = max([level, *(y(w["step_time_ms"]) for w in windows
                              if steps[0] <= w["first_step"] < steps[1])])
        drawing.text(ends[1] - 4, min(below + 14, bottom - 4),
                     best_label(phase["best_fixed"], with_ratio), GRAY)
    drawing.line([(drawing.x(w["first_step"] + w["update_interval"] / 2), y(w["step_time_ms"]))
                  for w in windows], BLUE)


def stairs(drawing, windows, key, bottom, name, color):
    """What was set, window by window."""
    most = 1.1 * max(w[key] for w in windows)

    def y(value):
        return bottom - STAIRS_HEIGHT * value / most

    drawing.axis(bottom)
    set_to = sorted({w[key] for w in windows})
    for value in sorted({set_to[0], set_to[len(set_to) // 2], set_to[-1]}):
        drawing.text(LEFT - 6, y(value) + 4, f"{value:g}")
    drawing.text(LEFT, bottom - STAIRS_HEIGHT - 4, name, color, "start")
    points = []
    for w in windows:
        points += [(drawing.x(w["first_step"] + n * w["update_interval"]), y(w[key])) for n in (0, 1)]
    drawing.line(points, color, 2)


def plot(run, tuning, steps, with_ratio):
    """`run`: what verdict says of the run that `tuning` is of."""
    windows = tuning["windows"]
    middle = TOP + TIME_HEIGHT
    bottoms = [middle + GAP + STAIRS_HEIGHT]
    if with_ratio:
        bottoms.append(bottoms[0] + GAP + STAIRS_HEIGHT)
    drawing = Drawing(bottoms[-1] + FOOT, steps)
    drawing.box(0, 0, WIDTH, drawing.height, "white")
    third = drawing.x(steps / 3) - drawing.x(0)
    drawing.box(drawing.x(steps / 3), TOP, third, bottoms[-1] - TOP, RED, 0.08)
    drawing.text(drawing.x(steps / 2), TOP - 8, "a load on the optimizer's core", RED, "middle")
    times(drawing, run["phases"], windows, middle, with_ratio)
    stairs(drawing, windows, "update_interval", bottoms[0], "S", GREEN)
    if with_ratio:
        stairs(drawing, windows, "topk_ratio", bottoms[1], "k", VIOLET)
    first = {w["window"]: w["first_step"] for w in windows}
    for event in tuning["events"]:
        if event["kind"] == "drift" and event["window"] in first:
            at = drawing.x(first[event["window"]])
            drawing.line([(at, middle + 4), (at, bottoms[-1])], RED, 1, "2 2")
    for tick in range(5):
        drawing.text(drawing.x(steps * tick / 4), bottoms[-1] + 16, f"{steps * tick // 4}",
                     anchor="middle")
    drawing.text(WIDTH - RIGHT, bottoms[-1] + 32, "step")
    return drawing.svg()
