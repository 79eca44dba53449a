"""DQN on a Gymnasium environment with the plain buffer: no RLlib, no Ray.

    python examples/dqn_without_rllib.py            # CartPole-v1, under a minute
    python examples/dqn_without_rllib.py --smoke    # seconds

Double Q-learning, a target network that follows slowly, importance weights in the loss, and every
batch's TD errors back into the buffer.
"""

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rllib_per_acc import TransitionReplay

GAMMA, BATCH, WARM_UP = 0.99, 64, 500


def main() -> None:
    """Trains, and prints ten lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1", help="vector observations, few actions")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="stop after 800 steps")
    arguments = parser.parse_args()
    steps = 800 if arguments.smoke else arguments.steps

    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # such small networks are slower with more
    rng = np.random.default_rng(arguments.seed)
    env = gym.make(arguments.env)
    num_actions = int(env.action_space.n)
    size = int(np.prod(env.observation_space.shape))
    network = nn.Sequential(
        nn.Linear(size, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, num_actions)
    )
    target = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-4)
    replay = TransitionReplay(50_000, beta=[[0, 0.4], [steps, 1.0]], seed=arguments.seed)

    observation, _ = env.reset(seed=arguments.seed)
    returns, total = [], 0.0
    for step in range(steps):
        epsilon = max(0.05, 1.0 - step / (0.3 * steps))
        if rng.random() < epsilon:
            action = int(rng.integers(num_actions))
        else:
            with torch.no_grad():
                action = int(network(torch.as_tensor(observation)).argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        replay.add(observation, action, reward, following, terminated)  # the highest TD error
        observation, total = following, total + float(reward)
        if terminated or truncated:
            returns.append(total)
            observation, total = env.reset()[0], 0.0

        if len(replay) >= WARM_UP and step % 2 == 0:
            learn(replay, network, target, optimizer)
        if (step + 1) % (steps // 10) == 0:
            recent = np.mean(returns[-20:]) if returns else float("nan")
            print(f"step {step + 1:6d}  mean return of the last 20 episodes {recent:7.1f}")


def learn(replay: TransitionReplay, network: nn.Module, target: nn.Module, optimizer) -> None:
    """One gradient step on a batch, whose TD errors become its priorities."""
    batch = replay.sample(BATCH)
    rewards = torch.as_tensor(batch.rewards, dtype=torch.float32)
    bootstraps = torch.as_tensor(~batch.terminateds, dtype=torch.float32)
    actions = torch.as_tensor(batch.actions)[:, None]
    with torch.no_grad():
        following = torch.as_tensor(batch.next_observations)
        best = network(following).argmax(1, keepdim=True)
        aims = rewards + GAMMA * bootstraps * target(following).gather(1, best).squeeze(1)
    td_errors = network(torch.as_tensor(batch.observations)).gather(1, actions).squeeze(1) - aims
    weights = torch.as_tensor(batch.weights, dtype=torch.float32)
    loss = (weights * nn.functional.huber_loss(td_errors, 0 * aims, reduction="none")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    batch.update(td_errors.detach().numpy())
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
            slow.lerp_(fast, 0.005)


if __name__ == "__main__":
    main()
