"""What a training algorithm does to its buffer: steps added, priorities changed."""

from typing import Any


class Watch:
    """Notes the reward of every step added, and which rows each update changes."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer
        self.rewards: dict[tuple[str, int], float] = {}
        self.updated: set[tuple[str, int]] = set()
        self.num_updates = 0
        self._add, self._update = buffer.add, buffer.update_priorities
        buffer.add, buffer.update_priorities = self.add, self.update

    def masses(self) -> dict[tuple[str, int], float]:
        held = self.buffer.get_priorities()
        keys = zip(held["episode_id"].tolist(), held["t"].tolist(), strict=True)
        return dict(zip(keys, held["mass"].tolist(), strict=True))

    def add(self, episodes: list, *args: Any, **kwargs: Any) -> None:
        for episode in episodes:
            agents = getattr(episode, "agent_episodes", {"": episode})
            for agent in agents.values():
                for i in range(len(agent)):
                    key = (agent.id_, agent.t_started + i)
                    self.rewards[key] = float(agent.get_rewards(i))
        self._add(episodes, *args, **kwargs)

    def update(self, *args: Any, **kwargs: Any) -> None:
        before = self.masses()
        self._update(*args, **kwargs)
        after = self.masses()
        self.num_updates += 1
        self.updated |= {key for key, mass in after.items() if mass != before[key]}
