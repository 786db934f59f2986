"""The plot of ./script/closed-loop: step time and S of the tuned run, window by window."""
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT = 860, 420, 62, 20
TOP, MIDDLE, BOTTOM = 30, 260, 385  # step time above, S below
BLUE, RED, GRAY, GREEN = "#1b6ca8", "#d1495b", "#999999", "#3a7d44"


def plot(summary, tuning, steps):
    windows = tuning["windows"]
    most_ms = 1.15 * max(sorted(w["step_time_ms"] for w in windows)[int(0.98 * (len(windows) - 1))],
                         max(p["best_fixed"]["step_time_ms"] for p in summary["phases"]))
    most_s = max(w["update_interval"] for w in windows) + 1

    def x(step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / steps

    def y_ms(value):
        return MIDDLE - (MIDDLE - TOP - 10) * min(value, most_ms) / most_ms

    def y_s(value):
        return BOTTOM - (BOTTOM - MIDDLE - 25) * value / most_s

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<rect x="{x(steps / 3):.1f}" y="{TOP}" width="{x(steps / 3) - x(0):.1f}" '
           f'height="{BOTTOM - TOP}" fill="{RED}" opacity="0.08"/>',
           f'<text x="{x(steps / 2):.1f}" y="{TOP - 8}" text-anchor="middle" fill="{RED}">'
           'a load on the optimizer\'s core</text>']

    def text(px, py, words, color="black", anchor="end"):
        out.append(f'<text x="{px:.1f}" y="{py:.1f}" text-anchor="{anchor}" fill="{color}">'
                   f'{escape(words)}</text>')

    def line(points, color, width=1.5, dash=""):
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"'
                   f'{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>')

    for py in (MIDDLE, BOTTOM):
        line([(LEFT, py), (WIDTH - RIGHT, py)], "black", 1)
    for tick in range(1, 5):
        value = most_ms * tick / 4
        text(LEFT - 6, y_ms(value) + 4, f"{value:.0f}")
    for value in sorted({1, most_s // 2, most_s - 1}):
        text(LEFT - 6, y_s(value) + 4, str(value))
    for tick in range(5):
        text(x(steps * tick / 4), BOTTOM + 16, f"{steps * tick // 4}", anchor="middle")
    text(LEFT, TOP - 8, "ms a step", BLUE, "start")
    text(LEFT, MIDDLE + 16, "S", GREEN, "start")
    text(WIDTH - RIGHT, BOTTOM + 32, "step")

    for number, phase in enumerate(summary["phases"]):
        best = phase["best_fixed"]
        level = y_ms(best["step_time_ms"])
        line([(x(steps * number / 3), level), (x(steps * (number + 1) / 3), level)], GRAY, 1.5, "5 3")
        text(x(steps * (number + 1) / 3) - 4, level + 14,
             f"best fixed: S = {best['update_interval']}, {best['step_time_ms']:.1f} ms", GRAY)
    line([(x(w["first_step"] + w["update_interval"] / 2), y_ms(w["step_time_ms"])) for w in windows],
         BLUE)
    stairs = []
    for w in windows:
        stairs += [(x(w["first_step"]), y_s(w["update_interval"])),
                   (x(w["first_step"] + w["update_interval"]), y_s(w["update_interval"]))]
    line(stairs, GREEN, 2)
    first = {w["window"]: w["first_step"] for w in windows}
    for event in tuning["events"]:
        if event["kind"] == "drift" and event["window"] in first:
            px = x(first[event["window"]])
            line([(px, MIDDLE + 4), (px, BOTTOM)], RED, 1, "2 2")
    out.append("</svg>")
    return "\n".join(out) + "\n"
