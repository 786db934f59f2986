"""What fixed settings take, from turns of some steps each.

A setting is (topk_ratio, update_interval, loaded).
"""
import statistics


class Table:
    """Step times of settings in turns."""

    def __init__(self):
        self.turns = {}  # {setting: {turn: (place of the first step in its window, [milliseconds])}}

    def add(self, setting, turn, first_step, times):
        """`first_step` counts from a window's beginning. A turn may have ended before its first step."""
        if times:
            self.turns.setdefault(setting, {})[turn] = (first_step % setting[1], times)

    def count(self, setting):
        return len(self.turns.get(setting, {}))

    def runs(self):
        """{setting: {turn: milliseconds a step of a whole window}}.

        A turn is not whole windows, whose steps differ: its steps are compared with what steps at their
        places take in all turns of the setting, and a window is that many times what they add up to."""
        result = {}
        for setting, turns in self.turns.items():
            interval = setting[1]
            at_place = {}
            for place, times in turns.values():
                for n, time in enumerate(times):
                    at_place.setdefault((place + n) % interval, []).append(time)
            if len(at_place) < interval:
                continue  # no window yet
            usual = {place: statistics.median(times) for place, times in at_place.items()}
            window = statistics.fmean(usual.values())
            result[setting] = {
                turn: window * sum(times) / sum(usual[(place + n) % interval]
                                                for n in range(len(times)))
                for turn, (place, times) in turns.items()}
        return result

    def to_json(self):
        return [[*setting, turn, place, times] for setting, turns in self.turns.items()
                for turn, (place, times) in turns.items()]

    @staticmethod
    def from_json(rows):
        table = Table()
        for ratio, interval, loaded, turn, place, times in rows:
            table.add((ratio, interval, loaded), turn, place, times)
        return table
