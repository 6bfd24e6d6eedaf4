@7137
Feature: Whatever fails, a command happens wholly or not at all
  In the reference system the plan in memory was changed first and committed afterwards. If the commit
  failed, memory said one thing and the database another, and later calls could not process the plan.

  Here nothing changes until the commit has returned. This is shown for every command: with a database
  that fails before, during and after the commit, with processes that are killed there, on a full disk,
  and on a connection that is lost. Where the answer to a commit is lost, the engine finds out what
  happened before it answers.

  Scenario Outline: <command> on <stage> when the database fails (<store>)
    Given a <store> store
    And a plan that is <stage>
    When <command> is tried and the database fails once it is decided
    Then it is told that nothing was stored
    And everything is as it was
    When <command> is tried and the database fails before the commit
    Then it is told that nothing was stored
    And everything is as it was
    When <command> is tried and the answer to the commit is lost
    Then it succeeds
    And the plan is <next>
    And the step was taken once
    And the store is sound

    Examples:
      | store    | command             | stage                      | next                       |
      | memory   | create-action       | strategize/queued          | strategize/queued          |
      | memory   | archive-action      | strategize/queued          | strategize/queued          |
      | memory   | add-rule            | strategize/queued          | strategize/queued          |
      | memory   | remove-rule         | strategize/queued          | strategize/queued          |
      | memory   | use                 | strategize/queued          | strategize/queued          |
      | memory   | start-strategize    | strategize/queued          | strategize/processing      |
      | memory   | complete-strategize | strategize/processing      | strategize/complete        |
      | memory   | execute-plan        | strategize/complete        | execute/queued             |
      | memory   | start-execute       | execute/queued             | execute/processing         |
      | memory   | open-changeset      | execute/processing         | execute/processing         |
      | memory   | record-change       | execute/processing         | execute/processing         |
      | memory   | seal-changeset      | execute/processing         | execute/processing         |
      | memory   | complete-execute    | execute/processing         | execute/complete           |
      | memory   | approve             | execute/complete           | execute/complete           |
      | memory   | apply-plan          | execute/complete           | apply/queued               |
      | memory   | start-apply         | apply/queued               | apply/processing           |
      | memory   | prepare-apply       | apply/processing           | apply/processing, prepared |
      | memory   | withdraw-apply      | apply/processing, prepared | apply/processing           |
      | memory   | complete-apply      | apply/processing           | apply/applied              |
      | memory   | constrain           | apply/processing           | apply/constrained          |
      | memory   | renew               | execute/processing         | execute/processing         |
      | memory   | release             | execute/processing         | execute/queued             |
      | memory   | fail                | execute/processing         | execute/errored            |
      | memory   | ask                 | execute/processing         | execute/awaiting_input     |
      | memory   | answer              | execute/awaiting_input     | execute/queued             |
      | memory   | retry               | execute/errored            | execute/queued             |
      | memory   | retry               | apply/constrained          | apply/queued               |
      | memory   | revise              | strategize/complete        | strategize/queued          |
      | memory   | revise              | execute/complete           | execute/queued             |
      | memory   | revert              | execute/complete           | strategize/queued          |
      | memory   | waive               | strategize/complete        | strategize/complete        |
      | memory   | cancel              | execute/processing         | execute/cancelled          |
      | sqlite   | create-action       | strategize/queued          | strategize/queued          |
      | sqlite   | archive-action      | strategize/queued          | strategize/queued          |
      | sqlite   | add-rule            | strategize/queued          | strategize/queued          |
      | sqlite   | remove-rule         | strategize/queued          | strategize/queued          |
      | sqlite   | use                 | strategize/queued          | strategize/queued          |
      | sqlite   | start-strategize    | strategize/queued          | strategize/processing      |
      | sqlite   | complete-strategize | strategize/processing      | strategize/complete        |
      | sqlite   | execute-plan        | strategize/complete        | execute/queued             |
      | sqlite   | start-execute       | execute/queued             | execute/processing         |
      | sqlite   | open-changeset      | execute/processing         | execute/processing         |
      | sqlite   | record-change       | execute/processing         | execute/processing         |
      | sqlite   | seal-changeset      | execute/processing         | execute/processing         |
      | sqlite   | complete-execute    | execute/processing         | execute/complete           |
      | sqlite   | approve             | execute/complete           | execute/complete           |
      | sqlite   | apply-plan          | execute/complete           | apply/queued               |
      | sqlite   | start-apply         | apply/queued               | apply/processing           |
      | sqlite   | prepare-apply       | apply/processing           | apply/processing, prepared |
      | sqlite   | withdraw-apply      | apply/processing, prepared | apply/processing           |
      | sqlite   | complete-apply      | apply/processing           | apply/applied              |
      | sqlite   | constrain           | apply/processing           | apply/constrained          |
      | sqlite   | renew               | execute/processing         | execute/processing         |
      | sqlite   | release             | execute/processing         | execute/queued             |
      | sqlite   | fail                | execute/processing         | execute/errored            |
      | sqlite   | ask                 | execute/processing         | execute/awaiting_input     |
      | sqlite   | answer              | execute/awaiting_input     | execute/queued             |
      | sqlite   | retry               | execute/errored            | execute/queued             |
      | sqlite   | retry               | apply/constrained          | apply/queued               |
      | sqlite   | revise              | strategize/complete        | strategize/queued          |
      | sqlite   | revise              | execute/complete           | execute/queued             |
      | sqlite   | revert              | execute/complete           | strategize/queued          |
      | sqlite   | waive               | strategize/complete        | strategize/complete        |
      | sqlite   | cancel              | execute/processing         | execute/cancelled          |
      | postgres | create-action       | strategize/queued          | strategize/queued          |
      | postgres | archive-action      | strategize/queued          | strategize/queued          |
      | postgres | add-rule            | strategize/queued          | strategize/queued          |
      | postgres | remove-rule         | strategize/queued          | strategize/queued          |
      | postgres | use                 | strategize/queued          | strategize/queued          |
      | postgres | start-strategize    | strategize/queued          | strategize/processing      |
      | postgres | complete-strategize | strategize/processing      | strategize/complete        |
      | postgres | execute-plan        | strategize/complete        | execute/queued             |
      | postgres | start-execute       | execute/queued             | execute/processing         |
      | postgres | open-changeset      | execute/processing         | execute/processing         |
      | postgres | record-change       | execute/processing         | execute/processing         |
      | postgres | seal-changeset      | execute/processing         | execute/processing         |
      | postgres | complete-execute    | execute/processing         | execute/complete           |
      | postgres | approve             | execute/complete           | execute/complete           |
      | postgres | apply-plan          | execute/complete           | apply/queued               |
      | postgres | start-apply         | apply/queued               | apply/processing           |
      | postgres | prepare-apply       | apply/processing           | apply/processing, prepared |
      | postgres | withdraw-apply      | apply/processing, prepared | apply/processing           |
      | postgres | complete-apply      | apply/processing           | apply/applied              |
      | postgres | constrain           | apply/processing           | apply/constrained          |
      | postgres | renew               | execute/processing         | execute/processing         |
      | postgres | release             | execute/processing         | execute/queued             |
      | postgres | fail                | execute/processing         | execute/errored            |
      | postgres | ask                 | execute/processing         | execute/awaiting_input     |
      | postgres | answer              | execute/awaiting_input     | execute/queued             |
      | postgres | retry               | execute/errored            | execute/queued             |
      | postgres | retry               | apply/constrained          | apply/queued               |
      | postgres | revise              | strategize/complete        | strategize/queued          |
      | postgres | revise              | execute/complete           | execute/queued             |
      | postgres | revert              | execute/complete           | strategize/queued          |
      | postgres | waive               | strategize/complete        | strategize/complete        |
      | postgres | cancel              | execute/processing         | execute/cancelled          |

  Scenario Outline: reclaim when the database fails (<store>)
    Given a <store> store
    And a plan that is execute/processing
    And its lease has expired
    When reclaim is tried and the database fails before the commit
    Then it is told that nothing was stored
    And everything is as it was
    When reclaim is tried and the answer to the commit is lost
    Then it succeeds
    And the plan is execute/queued
    And the step was taken once

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: <command> on <stage> when the process is killed (<store>)
    Given a <store> store
    And a plan that is <stage>
    When a process tries <command> and is killed once it is decided
    Then everything is as it was
    When a process tries <command> and is killed before the commit
    Then everything is as it was
    When a process tries <command> under a key and is killed after the commit
    Then the plan is <next>
    And the step was taken once
    When a process tries <command> under the same key
    Then it succeeds
    And it is told that it had been done before
    And the step was taken once
    And the store is sound

    Examples:
      | store    | command             | stage                      | next                       |
      | sqlite   | use                 | strategize/queued          | strategize/queued          |
      | sqlite   | start-strategize    | strategize/queued          | strategize/processing      |
      | sqlite   | complete-strategize | strategize/processing      | strategize/complete        |
      | sqlite   | execute-plan        | strategize/complete        | execute/queued             |
      | sqlite   | start-execute       | execute/queued             | execute/processing         |
      | sqlite   | open-changeset      | execute/processing         | execute/processing         |
      | sqlite   | record-change       | execute/processing         | execute/processing         |
      | sqlite   | seal-changeset      | execute/processing         | execute/processing         |
      | sqlite   | complete-execute    | execute/processing         | execute/complete           |
      | sqlite   | approve             | execute/complete           | execute/complete           |
      | sqlite   | apply-plan          | execute/complete           | apply/queued               |
      | sqlite   | start-apply         | apply/queued               | apply/processing           |
      | sqlite   | prepare-apply       | apply/processing           | apply/processing, prepared |
      | sqlite   | withdraw-apply      | apply/processing, prepared | apply/processing           |
      | sqlite   | complete-apply      | apply/processing           | apply/applied              |
      | sqlite   | constrain           | apply/processing           | apply/constrained          |
      | sqlite   | renew               | execute/processing         | execute/processing         |
      | sqlite   | release             | execute/processing         | execute/queued             |
      | sqlite   | fail                | execute/processing         | execute/errored            |
      | sqlite   | ask                 | execute/processing         | execute/awaiting_input     |
      | sqlite   | answer              | execute/awaiting_input     | execute/queued             |
      | sqlite   | retry               | execute/errored            | execute/queued             |
      | sqlite   | retry               | apply/constrained          | apply/queued               |
      | sqlite   | revise              | strategize/complete        | strategize/queued          |
      | sqlite   | revise              | execute/complete           | execute/queued             |
      | sqlite   | revert              | execute/complete           | strategize/queued          |
      | sqlite   | waive               | strategize/complete        | strategize/complete        |
      | sqlite   | cancel              | execute/processing         | execute/cancelled          |
      | postgres | use                 | strategize/queued          | strategize/queued          |
      | postgres | start-strategize    | strategize/queued          | strategize/processing      |
      | postgres | complete-strategize | strategize/processing      | strategize/complete        |
      | postgres | execute-plan        | strategize/complete        | execute/queued             |
      | postgres | start-execute       | execute/queued             | execute/processing         |
      | postgres | open-changeset      | execute/processing         | execute/processing         |
      | postgres | record-change       | execute/processing         | execute/processing         |
      | postgres | seal-changeset      | execute/processing         | execute/processing         |
      | postgres | complete-execute    | execute/processing         | execute/complete           |
      | postgres | approve             | execute/complete           | execute/complete           |
      | postgres | apply-plan          | execute/complete           | apply/queued               |
      | postgres | start-apply         | apply/queued               | apply/processing           |
      | postgres | prepare-apply       | apply/processing           | apply/processing, prepared |
      | postgres | withdraw-apply      | apply/processing, prepared | apply/processing           |
      | postgres | complete-apply      | apply/processing           | apply/applied              |
      | postgres | constrain           | apply/processing           | apply/constrained          |
      | postgres | renew               | execute/processing         | execute/processing         |
      | postgres | release             | execute/processing         | execute/queued             |
      | postgres | fail                | execute/processing         | execute/errored            |
      | postgres | ask                 | execute/processing         | execute/awaiting_input     |
      | postgres | answer              | execute/awaiting_input     | execute/queued             |
      | postgres | retry               | execute/errored            | execute/queued             |
      | postgres | retry               | apply/constrained          | apply/queued               |
      | postgres | revise              | strategize/complete        | strategize/queued          |
      | postgres | revise              | execute/complete           | execute/queued             |
      | postgres | revert              | execute/complete           | strategize/queued          |
      | postgres | waive               | strategize/complete        | strategize/complete        |
      | postgres | cancel              | execute/processing         | execute/cancelled          |

  Scenario Outline: <command> when the process is killed (<store>)
    Given a <store> store
    And a plan that is <stage>
    When a process tries <command> and is killed once it is decided
    Then everything is as it was
    When a process tries <command> and is killed before the commit
    Then everything is as it was
    When a process tries <command> and is killed after the commit
    Then the step was taken once
    And the store is sound

    Examples:
      | store    | command        | stage             | next              |
      | sqlite   | create-action  | strategize/queued | strategize/queued |
      | sqlite   | archive-action | strategize/queued | strategize/queued |
      | sqlite   | add-rule       | strategize/queued | strategize/queued |
      | sqlite   | remove-rule    | strategize/queued | strategize/queued |
      | postgres | create-action  | strategize/queued | strategize/queued |
      | postgres | archive-action | strategize/queued | strategize/queued |
      | postgres | add-rule       | strategize/queued | strategize/queued |
      | postgres | remove-rule    | strategize/queued | strategize/queued |

  Scenario Outline: <command> on <stage> when the disk is full (<store>)
    Given a <store> store
    And a plan that is <stage>
    When a process tries <command> with no room left on the disk
    Then it is told that nothing was stored
    And everything is as it was
    When a process tries <command> with room for a part of it
    Then it is told that nothing was stored
    And everything is as it was
    When <command> is tried
    Then it succeeds
    And the plan is <next>
    And the step was taken once
    And the store is sound

    Examples:
      | store  | command             | stage                      | next                       |
      | sqlite | create-action       | strategize/queued          | strategize/queued          |
      | sqlite | archive-action      | strategize/queued          | strategize/queued          |
      | sqlite | add-rule            | strategize/queued          | strategize/queued          |
      | sqlite | remove-rule         | strategize/queued          | strategize/queued          |
      | sqlite | use                 | strategize/queued          | strategize/queued          |
      | sqlite | start-strategize    | strategize/queued          | strategize/processing      |
      | sqlite | complete-strategize | strategize/processing      | strategize/complete        |
      | sqlite | execute-plan        | strategize/complete        | execute/queued             |
      | sqlite | start-execute       | execute/queued             | execute/processing         |
      | sqlite | open-changeset      | execute/processing         | execute/processing         |
      | sqlite | record-change       | execute/processing         | execute/processing         |
      | sqlite | seal-changeset      | execute/processing         | execute/processing         |
      | sqlite | complete-execute    | execute/processing         | execute/complete           |
      | sqlite | approve             | execute/complete           | execute/complete           |
      | sqlite | apply-plan          | execute/complete           | apply/queued               |
      | sqlite | start-apply         | apply/queued               | apply/processing           |
      | sqlite | prepare-apply       | apply/processing           | apply/processing, prepared |
      | sqlite | withdraw-apply      | apply/processing, prepared | apply/processing           |
      | sqlite | complete-apply      | apply/processing           | apply/applied              |
      | sqlite | constrain           | apply/processing           | apply/constrained          |
      | sqlite | renew               | execute/processing         | execute/processing         |
      | sqlite | release             | execute/processing         | execute/queued             |
      | sqlite | fail                | execute/processing         | execute/errored            |
      | sqlite | ask                 | execute/processing         | execute/awaiting_input     |
      | sqlite | answer              | execute/awaiting_input     | execute/queued             |
      | sqlite | retry               | execute/errored            | execute/queued             |
      | sqlite | retry               | apply/constrained          | apply/queued               |
      | sqlite | revise              | strategize/complete        | strategize/queued          |
      | sqlite | revise              | execute/complete           | execute/queued             |
      | sqlite | revert              | execute/complete           | strategize/queued          |
      | sqlite | waive               | strategize/complete        | strategize/complete        |
      | sqlite | cancel              | execute/processing         | execute/cancelled          |

  Scenario Outline: <command> on <stage> when the connection is lost (<store>)
    Given a <store> store
    And a plan that is <stage>
    And a wire to the server that can be cut
    When a process tries <command> and the wire is cut before its commit arrives
    Then it is told that nothing was stored
    And everything is as it was
    When a process tries <command> and the wire is cut before the answer to its commit is back
    Then it succeeds
    And the plan is <next>
    And the step was taken once
    And the store is sound

    Examples:
      | store    | command             | stage                      | next                       |
      | postgres | use                 | strategize/queued          | strategize/queued          |
      | postgres | start-strategize    | strategize/queued          | strategize/processing      |
      | postgres | complete-strategize | strategize/processing      | strategize/complete        |
      | postgres | execute-plan        | strategize/complete        | execute/queued             |
      | postgres | start-execute       | execute/queued             | execute/processing         |
      | postgres | seal-changeset      | execute/processing         | execute/processing         |
      | postgres | complete-execute    | execute/processing         | execute/complete           |
      | postgres | approve             | execute/complete           | execute/complete           |
      | postgres | apply-plan          | execute/complete           | apply/queued               |
      | postgres | start-apply         | apply/queued               | apply/processing           |
      | postgres | prepare-apply       | apply/processing           | apply/processing, prepared |
      | postgres | withdraw-apply      | apply/processing, prepared | apply/processing           |
      | postgres | complete-apply      | apply/processing           | apply/applied              |
      | postgres | constrain           | apply/processing           | apply/constrained          |
      | postgres | release             | execute/processing         | execute/queued             |
      | postgres | fail                | execute/processing         | execute/errored            |
      | postgres | ask                 | execute/processing         | execute/awaiting_input     |
      | postgres | answer              | execute/awaiting_input     | execute/queued             |
      | postgres | retry               | execute/errored            | execute/queued             |
      | postgres | retry               | apply/constrained          | apply/queued               |
      | postgres | revise              | strategize/complete        | strategize/queued          |
      | postgres | revise              | execute/complete           | execute/queued             |
      | postgres | revert              | execute/complete           | strategize/queued          |
      | postgres | waive               | strategize/complete        | strategize/complete        |
      | postgres | cancel              | execute/processing         | execute/cancelled          |

  Scenario Outline: <command> on <stage> when the server is lost and comes back (<store>)
    Given a <store> store
    And a plan that is <stage>
    And a wire to the server that can be cut
    When a process tries <command> under a key and the server is lost before the answer to its commit is back
    Then it ends with exit code 9
    And it is told to repeat it with the same key
    When the server is back
    And a process tries <command> under the same key
    Then it succeeds
    And it is told that it had been done before
    And the plan is <next>
    And the step was taken once
    And the store is sound

    Examples:
      | store    | command      | stage               | next              |
      | postgres | use          | strategize/queued   | strategize/queued |
      | postgres | execute-plan | strategize/complete | execute/queued    |

  Scenario Outline: <command> on <stage> when the server ends the connection of a process that waits (<store>)
    Given a <store> store
    And a plan that is <stage>
    When a process tries <command>, waits for the plan, and the server ends its connection
    Then what it is told is the truth
    And the store is sound
    When <command> is tried again unless it was done
    Then the plan is <next>
    And the step was taken once

    Examples:
      | store    | command          | stage               | next                  |
      | postgres | start-strategize | strategize/queued   | strategize/processing |
      | postgres | execute-plan     | strategize/complete | execute/queued        |
      | postgres | start-execute    | execute/queued      | execute/processing    |
      | postgres | apply-plan       | execute/complete    | apply/queued          |
      | postgres | start-apply      | apply/queued        | apply/processing      |
