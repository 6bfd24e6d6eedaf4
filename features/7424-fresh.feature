@7424
Feature: Nobody acts on what they read before
  In the reference system each process kept the plans it had read in memory. It never saw what another
  process did to them, and could run a plan again that had been applied long since.

  Here nothing that can change is kept. Every read asks the store, and every decision is made on rows
  read inside the transaction that commits it.

  Scenario Outline: A plan that others applied cannot be executed again by one who knew it before (<store>)
    Given a <store> store
    And a plan that is execute/queued
    And a worker who has read the plan
    When others take the plan to apply/applied
    And everything is looked at
    And the worker tries start-execute
    Then it is refused, because the plan is applied
    And it is told when the plan was applied and by whom
    And everything is as it was

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: A process that comes late is refused whatever it tries (<store>)
    Given a <store> store
    And a plan that is apply/applied
    When a process tries <command>
    Then it ends with exit code 4
    And it is told when the plan was applied and by whom
    And everything is as it was

    Examples:
      | store    | command          |
      | sqlite   | start-strategize |
      | sqlite   | execute-plan     |
      | sqlite   | start-execute    |
      | sqlite   | apply-plan       |
      | sqlite   | start-apply      |
      | sqlite   | revert           |
      | sqlite   | cancel           |
      | postgres | start-execute    |
      | postgres | apply-plan       |

  Scenario Outline: Whoever reads after a commit of another process sees it (<store>)
    Given a <store> store
    And a plan that is strategize/queued
    And a worker who has read the plan
    Then after every step that a process takes, the worker sees it at once
      | start-strategize    | strategize/processing |
      | complete-strategize | strategize/complete   |
      | execute-plan        | execute/queued        |
      | start-execute       | execute/processing    |
      | ask                 | execute/awaiting_input |
      | answer              | execute/queued        |
      | start-execute       | execute/processing    |
      | complete-execute    | execute/complete      |
      | apply-plan          | apply/queued          |
      | start-apply         | apply/processing      |
      | complete-apply      | apply/applied         |

    Examples:
      | store    |
      | sqlite   |
      | postgres |

  Scenario Outline: What another process did to an action and to rules counts at once (<store>)
    Given a <store> store
    And a plan that is strategize/complete
    And a worker who has read the plan, its action and its rules
    When a process adds a rule that blocks the execute gate
    And the worker tries execute-plan
    Then it is blocked
    When a process archives the action
    And the worker tries use
    Then it is refused, because the action was archived

    Examples:
      | store    |
      | sqlite   |
      | postgres |

  Scenario Outline: Of 16 processes that start the <phase> phase one wins (<store>)
    Given a <store> store
    And a plan that is <phase>/queued
    When 16 processes start the <phase> phase at once
    Then one of them wins
    And the 15 others end with exit code 4 and name the winner
    And the phase was claimed once
    And the store is sound

    Examples:
      | store    | phase      |
      | sqlite   | strategize |
      | sqlite   | execute    |
      | sqlite   | apply      |
      | postgres | strategize |
      | postgres | execute    |
      | postgres | apply      |

  Scenario Outline: Of 16 processes that move the plan on by <command> one does (<store>)
    Given a <store> store
    And a plan that is <stage>
    When 16 processes try <command> at once
    Then one of them does it
    And the 15 others end with exit code 4 and say when and by whom it was done
    And the step was taken once
    And the store is sound

    Examples:
      | store    | command      | stage               |
      | sqlite   | execute-plan | strategize/complete |
      | sqlite   | apply-plan   | execute/complete    |
      | postgres | execute-plan | strategize/complete |
      | postgres | apply-plan   | execute/complete    |

  Scenario Outline: 16 processes with one key make one plan (<store>)
    Given a <store> store
    And a plan that is strategize/queued
    When 16 processes try use at once, all with the same key
    Then all of them are told the same plan
    And there are 2 plans

    Examples:
      | store    |
      | sqlite   |
      | postgres |

  Scenario Outline: What is not in the store is not found, whoever remembers it (<store>)
    Given a <store> store
    And a plan that is execute/queued
    And a worker who has read the plan
    When the store loses everything
    Then the worker does not find the plan
    And the worker finds no plans
    And a process does not find the plan

    Examples:
      | store    |
      | sqlite   |
      | postgres |

  Scenario: A plan of one memory store is unknown to another
    Given a memory store
    And a plan that is execute/queued
    And a memory store
    And a worker
    Then the worker does not find the plan
    And the worker finds no plans
